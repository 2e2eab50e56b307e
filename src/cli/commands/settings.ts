// settings: what is in force, and where each value comes from.

import { exitCode } from '../../app/errors.ts';
import { settingKeys, settingsFile, settingSources, type Settings } from '../../app/settings.ts';
import type { Cli } from '../context.ts';
import { aligned } from '../render/show.ts';

export async function settings(cli: Cli): Promise<number> {
  const { io, services } = cli;
  const { home } = services;
  const inForce = await services.settings();
  const sources = await settingSources({ home, env: io.env });
  const rows = settingKeys.map(({ key }) => ({
    key,
    value: valueAt(inForce, key),
    from: sources.get(key) ?? 'default',
  }));
  if (cli.json) {
    for (const row of rows) cli.print(JSON.stringify(row));
    return exitCode.ok;
  }
  const table = [['KEY', 'VALUE', 'FROM'], ...rows.map(({ key, value, from }) => [key, valueText(value), from])];
  const columns = io.stdout.isTerminal ? io.stdout.size().columns : null;
  for (const line of aligned(table, ['left', 'left', 'left'], columns)) cli.print(line);
  cli.note(`The file: ${settingsFile(home)}`);
  return exitCode.ok;
}

/** The value under a key such as `tpu.sshPort`. */
function valueAt(inForce: Settings, key: string): unknown {
  return key.split('.').reduce<unknown>((section, name) => (section as Record<string, unknown>)[name], inForce);
}

function valueText(value: unknown): string {
  return value === null ? '-' : typeof value === 'string' ? value : JSON.stringify(value);
}
