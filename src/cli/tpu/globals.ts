// The flags that every command of `tpu` takes, wherever they stand.

import { exitCode, JobmanError } from '../../app/errors.ts';
import type { GlobalFlags } from '../context.ts';
import type { Example } from '../entry.ts';

/** As the help shows them. One letter is rare among them: most letters are words of the commands' own. */
export const globalRows: readonly Example[] = [
  ['--user name', 'Who you are, where several people share a login; TPU_USER says it for good'],
  ['--json', 'Print JSON, one object a line'],
  ['-y, --yes', 'Answer yes to every question'],
  ['--quiet', 'Print results only'],
  ['--settings file', 'A file of settings that stands over the others'],
  ['--color auto|always|never', 'Colour the output'],
  ['--progress auto|plain|none', 'How waiting is shown'],
  ['-h, --help', 'Print the help'],
];

export interface TpuGlobals extends GlobalFlags {
  /** Who the person says they are. */
  readonly user: string | undefined;
  readonly help: boolean;
}

const marks: Readonly<Record<string, 'json' | 'yes' | 'quiet' | 'help'>> = {
  '--json': 'json',
  '--yes': 'yes',
  '-y': 'yes',
  '--quiet': 'quiet',
  '--help': 'help',
  '-h': 'help',
};

const values = ['user', 'settings', 'color', 'progress'] as const;

/** Parts a line into these flags and all other words. What stands behind `--` is no flag. Throws JobmanError (2). */
export function splitGlobals(argv: readonly string[]): {
  readonly flags: TpuGlobals;
  readonly rest: readonly string[];
} {
  const said = new Set<string>();
  const told = new Map<string, string>();
  const rest: string[] = [];
  for (let at = 0; at < argv.length; at += 1) {
    const word = argv[at] ?? '';
    if (word === '--') {
      rest.push(...argv.slice(at));
      break;
    }
    const mark = marks[word];
    const name = values.find((one) => word === `--${one}` || word.startsWith(`--${one}=`));
    if (mark !== undefined) said.add(mark);
    else if (name === undefined) rest.push(word);
    else {
      const isApart = word === `--${name}`;
      if (isApart) at += 1;
      told.set(name, isApart ? (argv[at] ?? '') : word.slice(name.length + 3));
      if (told.get(name) === '') throw new JobmanError(`Nothing stands behind \`--${name}\`.`, exitCode.usage);
    }
  }
  return {
    flags: {
      json: said.has('json'),
      yes: said.has('yes'),
      quiet: said.has('quiet'),
      help: said.has('help'),
      user: told.get('user'),
      settings: told.get('settings'),
      color: oneOf('color', told.get('color'), ['auto', 'always', 'never']),
      progress: oneOf('progress', told.get('progress'), ['auto', 'plain', 'none']),
    },
    rest,
  };
}

function oneOf<Value extends string>(name: string, word: string | undefined, all: readonly Value[]): Value | undefined {
  if (word === undefined) return undefined;
  const found = all.find((one) => one === word);
  if (found === undefined) {
    throw new JobmanError(`--${name} \`${word}\`: expected one of ${all.join(', ')}.`, exitCode.usage);
  }
  return found;
}
