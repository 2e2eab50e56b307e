// Start times: how long programs take from their start to their end, each started in turn with the others.

import { spawnSync } from 'node:child_process';
import { closeSync, ftruncateSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { root, type Home } from './home.ts';

/** The words of a program; those of one that would do nothing the second time, by the round, from -1. */
export type Program = readonly string[] | ((round: number) => readonly string[]);

/** Milliseconds of each start, in the order of the rounds; one start of each before them is not counted. Throws when one fails. */
export function startTimes<Name extends string>(
  programs: Readonly<Record<Name, Program>>,
  rounds: number,
  home: Pick<Home, 'path' | 'env'>,
): Readonly<Record<Name, readonly number[]>> {
  const all = Object.entries<Program>(programs);
  const times = new Map(all.map(([name]): [string, number[]] => [name, []]));
  // A file, as a redirection gives: what Node's own spawn calls a pipe is a socket, which is slower to open.
  const output = openSync(join(home.path, 'output'), 'w');
  for (let round = -1; round < rounds; round += 1) {
    ftruncateSync(output);
    for (const [name, said] of all) {
      const [program = '', ...words] = typeof said === 'function' ? said(round) : said;
      const began = performance.now();
      const { status } = spawnSync(program, words, {
        env: home.env as NodeJS.ProcessEnv,
        cwd: root,
        stdio: ['ignore', output, output],
      });
      const tookMs = performance.now() - began;
      if (status !== 0) throw new Error(`${[program, ...words].join(' ')} ended with ${status}`);
      if (round >= 0) times.get(name)?.push(tookMs);
    }
  }
  closeSync(output);
  return Object.fromEntries(times) as Record<Name, number[]>;
}

/** Of these numbers the one at that share, in their order by size. */
export function quantile(numbers: readonly number[], share: number): number {
  return numbers.toSorted((one, other) => one - other)[Math.floor((numbers.length - 1) * share)] ?? Number.NaN;
}
