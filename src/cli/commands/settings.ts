import { exitCode, usageError } from '../../app/errors.ts';
import { settingKeys, settingSources } from '../../app/settings.ts';
import { settingsFile } from '../../app/files.ts';
import { settingAt, type SettingKey } from '../../schema/settings.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { aligned } from '../render/aligned.ts';
import { columnsOf } from '../screen.ts';

export async function settings(cli: Cli, _flags: GlobalFlags, ...args: readonly string[]): Promise<number> {
  const [verb, key, value, more] = args;
  if (verb === undefined) return show(cli);
  if (verb === 'set' && key !== undefined && value !== undefined && more === undefined) return set(cli, key, value);
  if (verb === 'unset' && key !== undefined && value === undefined) return unset(cli, key);
  throw usageError(
    `\`jobman settings ${args.join(' ')}\` is none of: jobman settings, jobman settings set <key> <value>, jobman settings unset <key>.`,
  );
}

async function set(cli: Cli, key: string, value: string): Promise<number> {
  const { setSetting } = await import('../../app/change-settings.ts');
  await setSetting(cli.services.home, key, value);
  return printChange(cli, key, `${key} is set.`);
}

async function unset(cli: Cli, key: string): Promise<number> {
  const { unsetSetting } = await import('../../app/change-settings.ts');
  const wasThere = await unsetSetting(cli.services.home, key);
  return printChange(cli, key, wasThere ? `${key} is at its default again.` : `${key} was not set in the file.`);
}

async function printChange(cli: Cli, key: string, sentence: string): Promise<number> {
  const { io, services } = cli;
  cli.printResult({ key, message: sentence }, sentence);
  const variable = settingKeys.find((one) => one.key === key)?.envVariable;
  if (variable !== undefined && (io.env[variable] ?? '') !== '') {
    cli.note(`The variable ${variable} overrides the file, and is in force here.`);
  }
  const isRead = key.startsWith('tpu.') || key.startsWith('local.') || key.startsWith('controller.');
  if (isRead && (await (await services.controller()).status()).running) {
    await (await services.controller()).reload();
    cli.note('The running controller starts over with the new settings; programs on workers run on meanwhile.');
  }
  return exitCode.ok;
}

interface Row {
  readonly key: string;
  readonly value: unknown;
  readonly source: string;
}

async function show(cli: Cli): Promise<number> {
  const { io, services } = cli;
  const { home } = services;
  const inForce = await services.settings();
  const sources = await settingSources({ ...services.settingsFiles(), env: io.env });
  const rows = [...rowsOf(settingKeys, inForce, sources), ...(await clusterRows(cli))];
  if (cli.json) {
    cli.printJsonLines(rows);
    return exitCode.ok;
  }
  const table = [['KEY', 'VALUE', 'FROM'], ...rows.map(({ key, value, source }) => [key, formatValue(value), source])];
  cli.printAll(aligned(table, ['left', 'left', 'left'], columnsOf(io.stdout)));
  cli.note(`The file: ${settingsFile(home)}`);
  return exitCode.ok;
}

async function clusterRows({ services }: Cli): Promise<readonly Row[]> {
  const { clusterSettingKeys } = await import('../../app/cluster/settings.ts');
  const { settings: inForce, sources } = await services.clusterSettings();
  return rowsOf(clusterSettingKeys, inForce, sources);
}

function rowsOf(keys: readonly SettingKey[], inForce: unknown, sources: ReadonlyMap<string, string>): readonly Row[] {
  return keys.map((setting) => ({
    key: setting.key,
    value: settingAt(inForce, setting),
    source: sources.get(setting.key) ?? 'default',
  }));
}

function formatValue(value: unknown): string {
  if (value === null || (Array.isArray(value) && value.length === 0)) return '-';
  // Complete flavors would be very long; `jobman resources-flavors` and --json show them.
  if (isNamed(value)) return value.map(({ name }) => name).join(', ');
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function isNamed(value: unknown): value is readonly { readonly name: string }[] {
  return Array.isArray(value) && value.every((one) => typeof (one as { name?: unknown }).name === 'string');
}
