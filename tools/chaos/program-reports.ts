// Reports of the programs of a chaos test; program.ts writes them.

import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { eventually } from '../../test/support/eventually.ts';

/** A line of the file `events`. */
export type ReportLine =
  | { readonly kind: 'start'; readonly attempt: number; readonly worker: string; readonly from: number }
  | { readonly kind: 'saved'; readonly attempt: number; readonly step: number }
  | { readonly kind: 'collision'; readonly who: string; readonly with: string }
  | { readonly kind: 'end'; readonly attempt: number; readonly worker: string; readonly outcome: string };

/** All reports of one job. */
export interface ProgramReports {
  readonly lines: readonly ReportLine[];
  /** Printed text by `<attempt>-<worker>`. */
  readonly printed: ReadonlyMap<string, string>;
}

/** Empty for a job whose program never ran. Throws for a line that no program writes. */
export function readReports(reportFolder: string, job: string): ProgramReports {
  const folder = join(reportFolder, job);
  const printed = join(folder, 'printed');
  return {
    lines: textOf(join(folder, 'events'))
      .split('\n')
      .filter((line) => line !== '')
      .map(parseReportLine),
    printed: new Map(namesIn(printed).map((name) => [name, textOf(join(printed, name))])),
  };
}

/** Programs of a job with a live process, as `<attempt>-<worker>`, by their locks. One that is ending gets 3 s. */
export async function livePrograms(reportFolder: string, job: string): Promise<readonly string[]> {
  const folder = join(reportFolder, job, 'alive');
  const isLocked = (name: string): boolean => spawnSync('flock', ['-n', '-s', join(folder, name), 'true']).status !== 0;
  let locked: readonly string[] = [];
  await eventually(() => (locked = namesIn(folder).filter(isLocked)).length === 0, { withinMs: 3_000, everyMs: 200 });
  return locked;
}

function parseReportLine(line: string): ReportLine {
  const [kind, first = '', second = '', , fourth = '', fifth = ''] = line.split(' ');
  switch (kind) {
    case 'start':
      return { kind, attempt: Number(first), worker: second, from: Number(fifth) };
    case 'saved':
      return { kind, attempt: Number(first), step: Number(second) };
    case 'collision':
      return { kind, who: first, with: second };
    case 'end':
      return { kind, attempt: Number(first), worker: second, outcome: fourth };
    default:
      throw new Error(`a program reported something that is not an event: ${line}`);
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
