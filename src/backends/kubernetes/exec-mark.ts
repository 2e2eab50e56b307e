// Exec mark: a cluster has no way to end a program that it started for us, and a line that is closed leaves it running. So the program
// gets a mark in its environment, by which another short program in the same container finds it and ends it.

import { randomBytes } from 'node:crypto';
import type { Program } from '../../app/by-hand.ts';
import type { ClusterExecRequest } from '../../app/cluster/cluster.ts';
import { reporting } from './exec-report.ts';

/** The variable that marks the program and whatever it starts. */
const markName = 'JOBMAN_EXEC';

/** Ends all that bear the mark: asks first, and kills three seconds later. It bears none itself. */
const ender = `for signal in TERM KILL; do
  for turn in 1 2 3; do
    found=
    for folder in /proc/[0-9]*; do
      tr '\\0' '\\n' 2>/dev/null <"$folder/environ" | grep -qxF "$1" || continue
      found=1
      [ "$turn" -gt 1 ] || kill -s "$signal" "\${folder#/proc/}" 2>/dev/null
    done
    [ -n "$found" ] || exit 0
    sleep 1
  done
done`;

/** A new mark, `NAME=value`. */
export function newMark(): string {
  return `${markName}=${randomBytes(8).toString('hex')}`;
}

/** The words that end all programs with that mark. */
export function enderOf(mark: string): readonly string[] {
  return ['sh', '-c', ender, 'sh', mark];
}

/**
 * The ways that are tried, one after the other. Input that is read by one that cannot begin would be lost: with input it is asked before
 * what the container `has`. `reportText`: see exec-report.ts.
 */
export async function waysHere(
  { program, receives, terminal }: ClusterExecRequest,
  mark: string,
  reportText: string,
  has: (argv: readonly string[]) => Promise<boolean>,
): Promise<readonly (readonly string[])[]> {
  const ways = waysToRun(program, mark);
  const [marked = [], plain = [], bare] = ways;
  if (!receives) return ways;
  if (terminal === null && (await has(['env', 'sh', '-c', ':']))) {
    return [['env', mark, ...reporting(marked.slice(2), reportText)]];
  }
  if (await has(['env', 'true'])) return [marked];
  return bare !== undefined && !(await has(['sh', '-c', ':'])) ? [bare] : [plain];
}

/**
 * With the mark; without it where the image has no `env`; and without a shell where it has none and the line needs none.
 * A container that lacks the first word says so before anything runs.
 */
function waysToRun(program: Program, mark: string): readonly (readonly string[])[] {
  const argv = program.kind === 'argv' ? program.argv : ['sh', '-c', program.line];
  const words = program.kind === 'line' ? program.line.trim().split(/\s+/) : [];
  const isPlain = words.length > 0 && words.every((word) => /^[\w@%+:,./-]+$/.test(word));
  return [['env', mark, ...argv], argv, ...(isPlain ? [words] : [])];
}
