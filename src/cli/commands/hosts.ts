import { setSetting, unsetSetting } from '../../files/change-settings.ts';
import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import { formatList, pluralize } from '../../app/format.ts';
import { hostOf, hostsOf } from '../../app/hosts.ts';
import { ownHost } from '../../core/model/spec.ts';
import { didYouMean } from '../../catalogue/did-you-mean.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { fittedTable, type Column } from '../render/aligned.ts';
import { columnsOf } from '../screen.ts';
import type { HostFlags } from '../table/flags.ts';

const unfinished = ['queued', 'setup', 'running', 'recovering', 'stopping'] as const;

export async function list(cli: Cli): Promise<number> {
  const client = await cli.services.client();
  const isOwn = (await cli.services.server()) === null;
  const [known, queues, { rows }] = await Promise.all([
    client.hosts(),
    client.hostQueues(),
    client.list({ phases: unfinished }),
  ]);
  const hosts = known.map((host) => ({
    ...host,
    jobs: queues.find(({ pool }) => pool === host.name)?.usedBy ?? [],
  }));
  if (cli.json) cli.printJsonLines(hosts);
  else {
    // A job that was deleted by force has no row any more.
    const messageOf = (id: string) => rows.find((row) => row.id === id)?.message ?? 'deleted';
    const columns: readonly Column<(typeof hosts)[number]>[] = [
      { title: 'HOST', text: ({ name }) => name },
      { title: 'SSH', text: ({ ssh }) => ssh ?? (isOwn ? 'this machine' : "the server's machine") },
      { title: 'SLOTS', side: 'right', text: ({ slots }) => String(slots) },
      { title: 'GPUS', side: 'right', text: ({ gpus }) => String(gpus ?? '-') },
      { title: 'JOBS', text: ({ jobs }) => jobs.map((id) => `${id} ${messageOf(id)}`).join(', ') || '-' },
    ];
    cli.printAll(fittedTable(columns, hosts, [], columnsOf(cli.io.stdout)));
    const names = new Set(rows.flatMap((row) => row.hosts));
    for (const name of names)
      if (!hosts.some((host) => host.name === name)) {
        const users = rows.filter((row) => row.hosts.includes(name)).map(({ id }) => id);
        cli.note(`${name} is not in the settings, and has ${pluralize(users.length, 'job')}: ${formatList(users)}`);
      }
    if (hosts.length === 1 && isOwn) cli.note('Add another machine: jobman hosts add NAME --ssh ADDRESS');
  }
  return exitCode.ok;
}

export async function add(cli: Cli, flags: HostFlags & GlobalFlags, name: string): Promise<number> {
  const { ssh, slots, gpus } = flags;
  if (ssh === undefined) throw usageError(`How is ${name} reached? jobman hosts add ${name} --ssh ADDRESS`);
  const known = hostsOf(await cli.services.settings()).find((one) => one.name === name);
  if (known !== undefined && name !== ownHost)
    throw new JobmanError(`The host ${name} already exists (${known.ssh}).`, exitCode.conflict, [
      `Remove it first: jobman hosts remove ${name}`,
    ]);
  const setting = { ssh, ...omitUndefined({ slots, gpus }) };
  await setSetting(cli.services.settingsFiles(), `hosts.${name}`, JSON.stringify(setting));
  const counts = [
    pluralize(hostOf(name, setting).slots, 'slot'),
    ...(gpus === undefined ? [] : [pluralize(gpus, 'GPU')]),
  ];
  const message = `Added host ${name} (${ssh}, ${counts.join(', ')}).`;
  cli.printResult({ host: name, message }, message);
  cli.note('Check the connection: jobman doctor');
  return exitCode.ok;
}

export async function remove(cli: Cli, _flags: GlobalFlags, name: string): Promise<number> {
  const names = hostsOf(await cli.services.settings()).flatMap((one) => (one.ssh === null ? [] : [one.name]));
  if (name === ownHost)
    throw usageError(`${ownHost} is this machine. Its slots and GPUs are the settings local.slots and local.gpus.`);
  if (!names.includes(name)) {
    const near = didYouMean(name, names);
    throw new JobmanError(`There is no host ${name}.`, exitCode.notFound, [
      near === undefined ? 'List them: jobman hosts' : `Did you mean ${near}?`,
    ]);
  }
  const guard = (removed: readonly string[]) => requireUnused(cli, removed);
  const { changed } = await unsetSetting(cli.services.settingsFiles(), `hosts.${name}`, guard);
  if (!changed)
    throw new JobmanError(`${name} is not in settings.json, but in another file of settings.`, exitCode.conflict, [
      'Show the file: jobman settings get hosts --json',
    ]);
  const message = `Removed host ${name}.`;
  cli.printResult({ host: name, message }, message);
  return exitCode.ok;
}

/** Throws JobmanError (4) if a job uses one of these hosts. */
export async function requireUnused(cli: Cli, names: readonly string[]): Promise<void> {
  const { rows } = await (await cli.services.client()).list({ phases: unfinished });
  for (const name of names) {
    const users = rows.filter(({ hosts }) => hosts.includes(name));
    if (users.length === 0) continue;
    throw new JobmanError(
      `${name} has ${pluralize(users.length, 'job')}: ${formatList(users.map(({ id }) => id))}. It was not removed.`,
      exitCode.conflict,
      [`End them first: jobman cancel ${users.map(({ id }) => Number(id)).join(' ')}`],
    );
  }
}
