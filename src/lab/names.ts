// Names of users, sessions, aliases and tags. A line of `tpu` recognizes each argument by its form, so a name must not
// look like anything else. Letters of any language are allowed.

import { exitCode, JobmanError } from '../app/errors.ts';
import { comparisonKey, formProblem, nameRefusal, normalizeName, userNameProblem } from '../app/user-names.ts';
import { parseAccelerator } from './tpus.ts';

/** Config aliases of a new user. */
export const defaultAliases: Readonly<Record<string, string>> = {
  lr: 'config.training.learning_rate',
  bs: 'config.training.batch_size',
  ep: 'config.training.num_epochs',
  wd: 'config.training.weight_decay',
  b1: 'config.training.adam_b1',
  b2: 'config.training.adam_b2',
  ckpt: 'config.training.checkpoint_per_epoch',
};

export type NameKind = 'user' | 'session' | 'config alias' | 'TPU alias' | 'tag';

export interface NamesInUse {
  readonly verbs: ReadonlySet<string>;
  /** Keys of commands: `tag` of `tag=T`. */
  readonly keys: ReadonlySet<string>;
  readonly users: readonly string[];
  readonly tpuAliases: ReadonlyMap<string, string>;
  readonly tpus: readonly string[];
}

/** The reason why the name is not allowed; null if it is. For a rename, `use` must not contain the old name. */
export function nameProblem(what: NameKind, name: string, use: NamesInUse): string | null {
  const why = formatProblem(what, name) ?? ambiguityProblem(what, name, use);
  if (why === null) return null;
  return nameRefusal(what === 'user' ? 'user name' : what === 'session' ? 'tmux session' : what, name, why);
}

/** The normalized name. Throws JobmanError (2) with its `nameProblem`. */
export function parseName(what: NameKind, text: string, use: NamesInUse): string {
  const name = normalizeName(text);
  const problem = nameProblem(what, name, use);
  if (problem !== null) throw new JobmanError(problem, exitCode.usage);
  return name;
}

function formatProblem(what: NameKind, name: string): string | null {
  const problem = what === 'tag' ? formProblem(name) : userNameProblem(name);
  if (problem !== null) return problem;
  if (what === 'session' && /[:.]/.test(name)) return 'tmux reserves ":" and "."';
  if (what === 'session' && /^[=@$%{~!+]/.test(name)) return `tmux reserves "${name.slice(0, 1)}" at the beginning`;
  if (what === 'config alias' && /^config(\.|$)/i.test(name)) return 'names that begin with "config" are config keys';
  return null;
}

function ambiguityProblem(
  what: NameKind,
  name: string,
  { verbs, keys, users, tpuAliases, tpus }: NamesInUse,
): string | null {
  const small = name.toLowerCase();
  // A session never appears on a line, so it may have the name of its user.
  if (what === 'session') return null;
  // A tag follows `tag=`, or is the argument of `add-tag` without another meaning.
  if (what === 'tag') return booleans.has(small) ? 'it would be read as yes or no' : null;
  if (verbs.has(name)) return `it is a command, \`tpu ${name}\``;
  if (keys.has(name)) return `it is a key of commands, ${name}=...`;
  if (what !== 'config alias' && reservedNames.has(small)) return 'it is a reserved name';
  if (booleans.has(small)) return 'it would be read as yes or no';
  const called = users.find((user) => comparisonKey(user) === comparisonKey(name));
  if (called !== undefined) return called === name ? 'a user has this name' : `it is too similar to the user ${called}`;
  // A config alias comes before an equals sign, and a TPU does not.
  if (what === 'config alias') return null;
  const meant = what === 'TPU alias' ? undefined : tpuAliases.get(name);
  if (meant !== undefined) return `it is an alias of the TPU ${meant}`;
  if (tpus.includes(name)) return 'it is the full name of a TPU';
  if (familyPattern.test(small) || parseAccelerator(small) !== null) return 'it is a TPU type';
  if (what !== 'TPU alias' && aliasPattern.test(small)) return 'it has the form of a TPU alias';
  return null;
}

const booleans: ReadonlySet<string> = new Set(['true', 'false', 'yes', 'no', 'on', 'off', 'none', 'null']);

/** A user or TPU with the name of a usage term, a column letter or a default config alias would be ambiguous. */
const usageTerms = 'user username config configs tag tags tpu window windows alias default w d t s v';
const reservedNames: ReadonlySet<string> = new Set([...usageTerms.split(' '), ...Object.keys(defaultAliases)]);

/** `v2`, `v234`, `v5e`, `v3+`, `v*`: types for `tpu find`. */
const familyPattern = /^v(\*|\d+[a-z]?\+?)$/;

/** `v2-32-p1`, `v2-1`: the usual form of TPU aliases. A future alias may have this name. */
const aliasPattern = /^v\d+[a-z]*-\d+(-\w+)?$/;
