import { spawnSync } from 'node:child_process';
import { closeSync, ftruncateSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { root, type Home } from './home.ts';

/** Arguments of a program; depending on the round (from -1) when a repeated call would do nothing. */
export type Program = readonly string[] | ((round: number) => readonly string[]);

/** Milliseconds by round. Starts the programs in turn and ignores the first start of each. Throws when one fails. */
export function startTimes<Name extends string>(
  programs: Readonly<Record<Name, Program>>,
  rounds: number,
  home: Pick<Home, 'path' | 'env'>,
): Readonly<Record<Name, readonly number[]>> {
  const all = Object.entries<Program>(programs);
  const times = new Map(all.map(([name]): [string, number[]] => [name, []]));
  // A file, as with a redirection: a pipe of Node's spawn is a socket, which takes longer to open.
  const output = openSync(join(home.path, 'output'), 'w');
  for (let round = -1; round < rounds; round += 1) {
    ftruncateSync(output);
    for (const [name, command] of all) {
      const [program = '', ...args] = typeof command === 'function' ? command(round) : command;
      const began = performance.now();
      const { status } = spawnSync(program, args, {
        env: home.env as NodeJS.ProcessEnv,
        cwd: root,
        stdio: ['ignore', output, output],
      });
      const tookMs = performance.now() - began;
      if (status !== 0) throw new Error(`${[program, ...args].join(' ')} ended with ${status}`);
      if (round >= 0) times.get(name)?.push(tookMs);
    }
  }
  closeSync(output);
  return Object.fromEntries(times) as Record<Name, number[]>;
}

export function quantile(numbers: readonly number[], share: number): number {
  return numbers.toSorted((one, other) => one - other)[Math.floor((numbers.length - 1) * share)] ?? Number.NaN;
}
