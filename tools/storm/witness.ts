// What the programs of a storm have told of themselves; see program.ts for how.

import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { eventually } from '../../test/support/eventually.ts';

/** A line of a program's story. */
export type Told =
  | { readonly kind: 'start'; readonly attempt: number; readonly worker: string; readonly from: number }
  | { readonly kind: 'saved'; readonly attempt: number; readonly step: number }
  | { readonly kind: 'collision'; readonly who: string; readonly with: string }
  | { readonly kind: 'end'; readonly attempt: number; readonly worker: string; readonly how: string };

/** All that one job's programs have told. */
export interface Testimony {
  readonly story: readonly Told[];
  /** What each printed, by `<attempt>-<worker>`. */
  readonly printed: ReadonlyMap<string, string>;
}

/** Reads it; of a job whose program never ran there is none. Throws when a line is none of a story's. */
export function readTestimony(witness: string, job: string): Testimony {
  const folder = join(witness, job);
  const printed = join(folder, 'printed');
  return {
    story: textOf(join(folder, 'story'))
      .split('\n')
      .filter((line) => line !== '')
      .map(toldIn),
    printed: new Map(namesIn(printed).map((name) => [name, textOf(join(printed, name))])),
  };
}

/**
 * The programs of a job, as `<attempt>-<worker>`, of which something is alive by the lock that the kernel holds for them. One
 * that has just ended is given a moment.
 */
export async function stillAlive(witness: string, job: string): Promise<readonly string[]> {
  const folder = join(witness, job, 'alive');
  const isLocked = (name: string): boolean => spawnSync('flock', ['-n', '-s', join(folder, name), 'true']).status !== 0;
  let locked: readonly string[] = [];
  await eventually(() => (locked = namesIn(folder).filter(isLocked)).length === 0, { withinMs: 3_000, everyMs: 200 });
  return locked;
}

function toldIn(line: string): Told {
  const [kind, first = '', second = '', , fourth = '', fifth = ''] = line.split(' ');
  switch (kind) {
    case 'start':
      return { kind, attempt: Number(first), worker: second, from: Number(fifth) };
    case 'saved':
      return { kind, attempt: Number(first), step: Number(second) };
    case 'collision':
      return { kind, who: first, with: second };
    case 'end':
      return { kind, attempt: Number(first), worker: second, how: fourth };
    default:
      throw new Error(`a program told something that is no line of its story: ${line}`);
  }
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (isMissing(error)) return '';
    throw error;
  }
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}
