// Names: what a user, a session, an alias and a tag may be called. On a line of `tpu` each word is told by what it is, so a
// name must be nothing else; letters of any language are fine.

import { exitCode, JobmanError } from '../app/errors.ts';
import { acceleratorCalled } from './tpus.ts';

/** The config aliases that a new user begins with. */
export const defaultAliases: Readonly<Record<string, string>> = {
  lr: 'config.training.learning_rate',
  bs: 'config.training.batch_size',
  ep: 'config.training.num_epochs',
  wd: 'config.training.weight_decay',
  b1: 'config.training.adam_b1',
  b2: 'config.training.adam_b2',
  ckpt: 'config.training.checkpoint_per_epoch',
};

export type Named = 'user' | 'session' | 'config alias' | 'TPU alias' | 'tag';

export interface WordsInUse {
  readonly verbs: ReadonlySet<string>;
  /** Keys that commands take: `tag` of `tag=T`. */
  readonly keys: ReadonlySet<string>;
  readonly users: readonly string[];
  /** Full names by alias. */
  readonly tpuAliases: ReadonlyMap<string, string>;
  readonly tpus: readonly string[];
}

/** The longest name, in UTF-16 units: it stands in columns, in names of folders and of tmux sessions. */
const longest = 64;

/** The name as it is kept: letters that can be written in two ways (é) in one of them, so that equal names are equal. */
export function kept(name: string): string {
  return name.normalize('NFC');
}

/**
 * The reason why a user, an alias or a tag cannot be called that, as a sentence with what to do; null when it can. `use` does not hold its
 * own old name.
 */
export function nameProblem(what: Named, name: string, use: WordsInUse): string | null {
  const why = formProblem(what, name) ?? readingProblem(what, name, use);
  if (why === null) return null;
  // Signs that do not show are written out, so that the sentence is whole.
  const shown = name.replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, (sign) => `\\u{${(sign.codePointAt(0) ?? 0).toString(16)}}`);
  return `"${shown}" cannot be the name of a ${what}: ${why}. Choose another.`;
}

/** The word as the name that is kept. Throws JobmanError (2) with its `nameProblem`. */
export function newName(what: Named, word: string, use: WordsInUse): string {
  const name = kept(word);
  const problem = nameProblem(what, name, use);
  if (problem !== null) throw new JobmanError(problem, exitCode.usage);
  return name;
}

/** Joiners inside words of Persian and Indic scripts and inside some pictures, where they show. */
const joiner =
  /(?<=[\p{L}\p{M}\p{Extended_Pictographic}\uFE0F])(?<!\p{ASCII})[\u200C\u200D](?!\p{ASCII})(?=[\p{L}\p{Extended_Pictographic}])/gu;

function formProblem(what: Named, name: string): string | null {
  if (name === '') return 'it is empty';
  if (name.length > longest) return `it has more than ${longest} characters`;
  if (name !== kept(name)) return 'it is written with letters and accents apart; compose them (Unicode NFC)';
  // Control and bidi signs change how a whole line looks; unassigned ones and halves of pairs are nothing on any screen.
  if (/\p{C}/u.test(name.replaceAll(joiner, ''))) return 'it has a sign that does not show';
  if (/[\s\p{Z}]/u.test(name)) return 'it has a blank';
  if (/[/\\]/.test(name)) return 'it has a slash, and folders are named after it';
  if (/^\.+$/.test(name)) return 'it is the name of a folder to every system';
  if (name.includes('=')) return 'it would be read as key=value';
  if (name.startsWith('-')) return 'it would be read as a flag';
  if (what !== 'tag' && /^\d+$/.test(name)) return 'it would be read as the number of a window or a directory';
  if (what === 'session' && /[:.]/.test(name)) return 'tmux keeps ":" and "." for itself';
  if (what === 'session' && /^[=@$%{~!+]/.test(name))
    return `tmux reads "${name.slice(0, 1)}" at the front as something else`;
  if (what === 'config alias' && /^config(\.|$)/i.test(name)) return 'what begins with "config" is a key itself';
  return null;
}

function readingProblem(
  what: Named,
  name: string,
  { verbs, keys, users, tpuAliases, tpus }: WordsInUse,
): string | null {
  const small = name.toLowerCase();
  // A session is never said on a line, so it may be called like its user.
  if (what === 'session') return null;
  // A tag follows `tag=`, or is the argument of `add-tag` that can be nothing else.
  if (what === 'tag') return truthWords.has(small) ? 'it would be read as yes or no' : null;
  if (verbs.has(name)) return `it is a command, \`tpu ${name}\``;
  if (keys.has(name)) return `it is a key of commands, ${name}=...`;
  if (what !== 'config alias' && reserved.has(small)) return 'commands and settings use that word themselves';
  if (truthWords.has(small)) return 'it would be read as yes or no';
  const called = users.find((user) => plain(user) === plain(name));
  if (called !== undefined) {
    return called === name ? 'a user is called that' : `it could be taken for the user ${called}`;
  }
  // A config alias is said in front of an equals sign, where no TPU can be.
  if (what === 'config alias') return null;
  const meant = what === 'TPU alias' ? undefined : tpuAliases.get(name);
  if (meant !== undefined) return `it is an alias of the TPU ${meant}`;
  if (tpus.includes(name)) return 'it is the full name of a TPU';
  if (family.test(small) || acceleratorCalled(small) !== null) return 'it is a type of TPU';
  if (what !== 'TPU alias' && likeAlias.test(small)) return 'it looks like an alias of a TPU';
  return null;
}

const truthWords: ReadonlySet<string> = new Set(['true', 'false', 'yes', 'no', 'on', 'off', 'none', 'null']);

/**
 * Words of usage lines, the letters of columns, and every user's config aliases: a user or a TPU of that name would read as
 * something else.
 */
const usageWords = 'user username config configs tag tags tpu window windows alias default w d t s v';
const reserved: ReadonlySet<string> = new Set([...usageWords.split(' '), ...Object.keys(defaultAliases)]);

/** `v2`, `v234`, `v5e`, `v3+`, `v*`: what `tpu find` takes for types. */
const family = /^v(\*|\d+[a-z]?\+?)$/;

/** `v2-32-p1`, `v2-1`: what aliases of TPUs look like in every lab that has some; the next one may be called just that. */
const likeAlias = /^v\d+[a-z]*-\d+(-\w+)?$/;

/** Equal for names that people would take for one another: they differ in case or in how a letter is written only. */
function plain(name: string): string {
  return name.normalize('NFKC').replaceAll(joiner, '').toLowerCase();
}
