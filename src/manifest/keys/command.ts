// Keys of `command`: the work itself.

import { asNumber, choice, freeValue, mapOf, path as pathKind, script, section, wrongKind } from '../kinds.ts';
import { refuse, type Key, type Kind } from '../../schema/kinds.ts';
import { environmentName } from './names.ts';

/** `all`, one number, or a list of numbers. */
const workers: Kind<'all' | readonly number[]> = {
  words: 'number | list | "all"',
  schema: {
    anyOf: [
      { enum: ['all'] },
      { type: 'integer', minimum: 0 },
      { type: 'array', items: { type: 'integer', minimum: 0 }, minItems: 1, uniqueItems: true },
      { type: 'string', pattern: '\\$\\{' },
    ],
  },
  read(tree, path, report) {
    if (tree.kind === 'scalar' && tree.value === 'all') return 'all';
    const items = tree.kind === 'list' ? tree.items : [tree];
    if (items.length === 0) return refuse(tree, path, report, 'is an empty list, so nothing would run the command');
    const numbers: number[] = [];
    for (const [index, item] of items.entries()) {
      const at = tree.kind === 'list' ? [...path, index] : path;
      const value = asNumber(item);
      if (item.kind === 'unknown') continue;
      if (value === undefined || !Number.isInteger(value) || value < 0) {
        const meant = item.kind === 'scalar' && /^a/i.test(item.source) ? 'all' : undefined;
        if (meant === undefined) wrongKind(item, 'the number of a worker, a list of numbers, or all', at, report);
        else refuse(item, at, report, 'wants the number of a worker, a list of numbers, or all', meant);
      } else if (numbers.includes(value)) refuse(item, at, report, `names worker ${value} twice`);
      else numbers.push(value);
    }
    return numbers;
  },
};

/** An empty script would end at once and count as a success. */
const neededScript: Kind<string> = {
  ...script(),
  read(tree, path, report) {
    const value = script().read(tree, path, report);
    return value?.trim() === '' ? refuse(tree, path, report, 'is empty, so there is nothing to run') : value;
  },
};

/** The section `command`. */
export const command = {
  about:
    'The work itself. Keys of your own with a single value may stand here, for `${command.lr}` and `--set command.lr=0.01`.',
  otherwise: 'the job only sets up, and keeps its TPU',
  example: '{run: python3 train.py}',
  kind: section(
    {
      run: {
        kind: neededScript,
        about: "A shell script. `${a.b}` is a value of the manifest; `$NAME` and a bare `${NAME}` are the shell's own.",
        isRequired: true,
        example: 'python3 train.py',
        aliases: ['cmd'],
      },
      workers: { kind: workers, about: 'Which workers run it, counted from 0.', otherwise: 'all', example: '[0]' },
      env: {
        kind: mapOf(environmentName),
        about: 'Environment variables, over those of job.env.',
        example: '{SEED: 7}',
      },
      workdir: {
        kind: pathKind(),
        about: 'Folder that it starts in: on the worker, or inside the container.',
        otherwise: "the login folder, or the container's own",
        example: '~/experiment',
      },
      runs_on: {
        kind: choice('workers', 'here'),
        about: '`here` runs it once, on the machine of jobman itself, for scripts that drive the TPU from outside.',
        otherwise: 'workers',
        example: 'here',
      },
    },
    freeValue(),
  ),
} satisfies Key<unknown>;
