// settings: what is in force, and where each value comes from.

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { exitCode } from '../../app/errors.ts';
import type { Cli } from '../context.ts';
import { aligned } from '../render/show.ts';

interface Setting {
  readonly key: string;
  readonly value: unknown;
  readonly from: 'default' | 'settings.json';
}

export async function settings(cli: Cli): Promise<number> {
  const { io, services } = cli;
  const effective = await services.settings();
  const written = await readWritten(join(services.home, 'settings.json'));
  const rows = flatten(effective, written, '');
  if (cli.json) {
    for (const row of rows) cli.print(JSON.stringify(row));
    return exitCode.ok;
  }
  const table = [['KEY', 'VALUE', 'FROM'], ...rows.map(({ key, value, from }) => [key, valueText(value), from])];
  const columns = io.stdout.isTerminal ? io.stdout.size().columns : null;
  for (const line of aligned(table, ['left', 'left', 'left'], columns)) cli.print(line);
  cli.note(`The file: ${join(services.home, 'settings.json')}`);
  return exitCode.ok;
}

/** What the file says; nothing when it is not there. That it is wrong was already said by whoever read the settings. */
async function readWritten(path: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(path, 'utf8'));
  } catch {
    return {};
  }
}

function flatten(effective: object, written: unknown, prefix: string): readonly Setting[] {
  const inFile = typeof written === 'object' && written !== null ? (written as Readonly<Record<string, unknown>>) : {};
  return Object.entries(effective).flatMap(([key, value]: [string, unknown]) => {
    const isSection = typeof value === 'object' && value !== null && !Array.isArray(value);
    if (isSection) return flatten(value, inFile[key], `${prefix}${key}.`);
    return [{ key: `${prefix}${key}`, value, from: key in inFile ? ('settings.json' as const) : ('default' as const) }];
  });
}

function valueText(value: unknown): string {
  return value === null ? '-' : typeof value === 'string' ? value : JSON.stringify(value);
}
