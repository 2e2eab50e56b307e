import { didYouMean } from '../../catalogue/did-you-mean.ts';
import type { SettingChange } from '../../files/change-settings.ts';
import { exitCode, usageError } from '../../app/errors.ts';
import { formatList } from '../../app/format.ts';
import { formatUse } from '../../app/notifications/recipients.ts';
import type { SettingRow } from '../../app/client.ts';
import { formatServer, notOnServerError } from '../../app/server-in-use.ts';
import { settingKeys, settingsWarnings } from '../../app/settings.ts';
import { settingsLayers } from '../../files/settings-files.ts';
import { readSettingRows } from '../../files/setting-rows.ts';
import { settingsFile } from '../../files/files.ts';
import { databaseProblem } from '../controller.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { fittedTable, type Column } from '../render/aligned.ts';
import { columnsOf } from '../screen.ts';

export async function settings(cli: Cli, _flags: GlobalFlags, ...args: readonly string[]): Promise<number> {
  const [action, key, value, unexpected] = args;
  if (action === undefined || (action === 'list' && key === undefined)) return list(cli);
  if (action === 'get' && key !== undefined && value === undefined) return get(cli, key);
  const server = await cli.services.server();
  if (server !== null) throw notOnServerError(`\`jobman settings ${action}\``, server);
  if (action === 'set' && key !== undefined && value !== undefined && unexpected === undefined)
    return set(cli, key, value);
  if (action === 'add' && key !== undefined && value !== undefined && unexpected === undefined)
    return add(cli, key, value);
  if (action === 'unset' && key !== undefined && value === undefined) return unset(cli, key);
  const keys = settingKeys.map((one) => one.key);
  if (args.length === 1 && !['get', 'set', 'add', 'unset'].includes(action)) {
    const near = keys.find((one) => one === action || one.startsWith(`${action}.`)) ?? didYouMean(action, keys);
    if (near !== undefined)
      throw usageError(`"${action}" is not an action. Did you mean \`jobman settings get ${near}\`?`);
  }
  const isIncomplete = ['get', 'set', 'add', 'unset'].includes(action) && value === undefined;
  const question = key === undefined ? 'Which setting?' : `Which value for ${key}?`;
  throw usageError(isIncomplete ? question : `Unexpected arguments: jobman settings ${args.join(' ')}`, [
    'jobman settings [list]              shows all settings',
    'jobman settings get <key>           shows one',
    'jobman settings set <key> <value>   changes one',
    'jobman settings add <key> <value>   adds to a list',
    'jobman settings unset <key>         restores the default',
  ]);
}

async function get(cli: Cli, key: string): Promise<number> {
  const rows = await allRows(cli);
  const row = rows.find((one) => one.key === key) ?? rows.flatMap((one) => entryOf(one, key))[0];
  if (row === undefined) {
    const { unknownSetting } = await import('../../files/change-settings.ts');
    throw unknownSetting(
      key,
      rows.map((one) => one.key),
    );
  }
  if (cli.json) cli.printJson(row);
  else {
    cli.print(isEmpty(row.value) ? JSON.stringify(row.value) : formatValue(row.value));
    if (row.source === 'default') cli.note(`${key} is not set; this is its default.`);
  }
  return exitCode.ok;
}

/** One entry of an object, such as `notify.channels.slack`. */
function entryOf(row: SettingRow, key: string): readonly SettingRow[] {
  const entry = key.startsWith(`${row.key}.`) ? key.slice(row.key.length + 1) : '';
  const entries = typeof row.value === 'object' && row.value !== null ? new Map(Object.entries(row.value)) : new Map();
  return entries.has(entry) ? [{ ...row, key, value: entries.get(entry) as unknown }] : [];
}

async function set(cli: Cli, key: string, value: string): Promise<number> {
  const { setSetting } = await import('../../files/change-settings.ts');
  const change = await setSetting(cli.services.settingsFiles(), key, value, (hosts) => requireUnused(cli, hosts));
  await printChange(cli, key, `Set ${key}.`, change);
  if (change.removed.length > 0) {
    const isList = change.removed.some((one) => /^["[{]/.test(one));
    const alone = isList
      ? `To add one: jobman settings add ${key} VALUE`
      : `To set one: jobman settings set ${key}.NAME VALUE`;
    cli.note(`The previous value also had ${formatList(change.removed)}. ${alone}`);
  }
  return exitCode.ok;
}

async function requireUnused(cli: Cli, hosts: readonly string[]): Promise<void> {
  return (await import('./hosts.ts')).requireUnused(cli, hosts);
}

async function add(cli: Cli, key: string, value: string): Promise<number> {
  const [{ addToSetting }, rows] = await Promise.all([import('../../files/change-settings.ts'), allRows(cli)]);
  const inForce = rows.find((one) => one.key === key)?.value;
  const change = await addToSetting(cli.services.settingsFiles(), key, value, inForce);
  return printChange(cli, key, change.changed ? `Added ${value} to ${key}.` : `${key} already has ${value}.`, change);
}

async function unset(cli: Cli, key: string): Promise<number> {
  const { unsetSetting } = await import('../../files/change-settings.ts');
  const change = await unsetSetting(cli.services.settingsFiles(), key, (hosts) => requireUnused(cli, hosts));
  const isSetting = settingKeys.some((one) => one.key === key);
  const sentence = isSetting ? `${key} has its default value again.` : `Removed ${key}.`;
  return printChange(cli, key, change.changed ? sentence : `${key} was not set in the file.`, change);
}

async function printChange(cli: Cli, key: string, sentence: string, change: SettingChange): Promise<number> {
  const { io, services } = cli;
  cli.printResult({ key, message: sentence }, sentence);
  const variable = settingKeys.find((one) => one.key === key)?.envVariable;
  if (variable !== undefined && (io.env[variable] ?? '') !== '') {
    cli.note(`The variable ${variable} is set in this terminal and overrides the file.`);
  } else if (key === 'database') {
    const problem = await databaseProblem(cli);
    if (problem !== null) cli.note(`warning: ${problem} The setting is stored. To check again: jobman doctor`);
  }
  const layers = await settingsLayers(services.settingsFiles());
  for (const warnings of await Promise.all(layers.map((layer) => settingsWarnings(layer, key))))
    for (const warning of warnings) cli.note(`warning: ${warning}`);
  const client = change.removedChannels.length === 0 ? null : await services.client();
  if (client !== null && (await client.installationId()) !== null) {
    const used = await client.recipientsInUse();
    for (const one of used.filter(({ recipient }) => change.removedChannels.includes(recipient))) {
      const drop = one.events === 0 ? '' : ` Drop the events: jobman notify drop ${one.recipient}`;
      cli.note(`${one.recipient} is the recipient of ${formatUse(one)}.${drop}`);
    }
  }
  const isRead = /^(?:tpu|local|hosts|controller|passes|notify|grants|prices|lab)\b/.test(key);
  if (isRead && (await (await services.controller()).status()).running) {
    await (await services.controller()).reload();
    cli.note('The running controller uses the new settings at once; programs on workers keep running.');
  }
  return exitCode.ok;
}

/** The settings of the server in use; without a server, those of this machine. */
async function allRows({ services }: Cli): Promise<readonly SettingRow[]> {
  return (await services.server()) === null ? readSettingRows(services) : (await services.client()).settings();
}

async function list(cli: Cli): Promise<number> {
  const rows = await allRows(cli);
  if (cli.json) {
    cli.printJsonLines(rows);
    return exitCode.ok;
  }
  const columns: readonly Column<SettingRow>[] = [
    { title: 'KEY', text: ({ key }) => key },
    { title: 'VALUE', text: ({ value }) => formatValue(value) },
    { title: 'FROM', text: ({ source }) => source },
  ];
  cli.printAll(fittedTable(columns, rows, [], columnsOf(cli.io.stdout)));
  const server = await cli.services.server();
  cli.note(
    server === null
      ? `Settings file: ${settingsFile(cli.services.home)}`
      : `These are the settings of the server ${formatServer(server)}. Their file is on its machine.`,
  );
  return exitCode.ok;
}

function formatValue(value: unknown): string {
  if (isEmpty(value)) return '-';
  // Complete flavors would be very long; `jobman resources-flavors` and --json show them.
  if (isNamed(value)) return value.map(({ name }) => name).join(', ');
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function isEmpty(value: unknown): boolean {
  return value === null || (typeof value === 'object' && Object.keys(value).length === 0);
}

function isNamed(value: unknown): value is readonly { readonly name: string }[] {
  return Array.isArray(value) && value.every((one) => typeof (one as { name?: unknown }).name === 'string');
}
