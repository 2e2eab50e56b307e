// Doctor: reads the facts of `jobman doctor`. Changes nothing, starts nothing, and creates no file.

import { accessSync, constants, existsSync, readFileSync, statfsSync, statSync } from 'node:fs';
import { connect } from 'node:net';
import { dirname, join } from 'node:path';
import {
  checkClock,
  checkController,
  checkDisk,
  checkEndpoints,
  checkNotifications,
  checkPermissions,
  checkPrivacy,
  checkSettings,
  checkSsh,
  checkVersions,
  billingPermission,
  failedCheck,
  ok,
  problem,
  runDoctor,
  tpuPermissions,
  unknown,
  warning,
  type Check,
  type CheckResult,
  type DiskFacts,
  type Outcome,
  type ReachFacts,
  type SshFacts,
} from '../app/doctor.ts';
import { JobmanError, messageOf } from '../app/errors.ts';
import { isGroupShared, settingsFile } from '../app/files.ts';
import { pluralize } from '../app/format.ts';
import { parseShape } from '../app/json.ts';
import { heldPhrase } from '../app/notifications/digest.ts';
import { configuredRecipients, recipientProblem } from '../app/notifications/recipients.ts';
import type { QuotaCache } from '../app/quota.ts';
import type { Services } from '../app/services.ts';
import { settingsLayers, settingsWarnings, type Settings } from '../app/settings.ts';
import { maxFinishedJobs, tpuScopes, tpuSpecs } from '../app/tpus.ts';
import { second, type Duration } from '../core/model/time.ts';
import { projectOfTable } from '../google/billing-export.ts';
import { missingPermissions } from '../google/permissions.ts';
import { createHttpClient, isLoopback } from '../http/client.ts';
import { NoReply } from '../http/reply.ts';
import { runProcess } from '../remote/process.ts';
import { ownKeyFile } from '../remote/ssh-keys.ts';
import { withReadOnlyStore } from '../store/store.ts';
import { findEmulator, isServedByEmulator } from './emulator-service.ts';
import { createGoogleService, serverOf } from './google-api.ts';
import { secretFiles } from './notify.ts';
import { databaseFile } from './paths.ts';
import { readQuota } from './quota.ts';
import { knownNewerVersion } from './version-check.ts';

/** See `Services.doctor`. */
export function diagnose(
  services: Services,
  onChange: (running: readonly string[]) => void,
): Promise<readonly CheckResult[]> {
  const { home } = services;
  const projects = once(() => projectsOf(services));
  const source = once(async () => loginSource(services, await services.settings()));
  const servers = once(async () => reachAll(services, await services.settings(), await projects()));
  /** One mistake in the settings is one problem, not one for each check. */
  const withSettings =
    (check: Check): Check =>
    async () => {
      const areValid = await services.settings().then(
        () => true,
        () => false,
      );
      return areValid ? check() : [unknown('it needs valid settings')];
    };
  const checks: Readonly<Record<string, Check>> = {
    settings: () => settingsOutcomes(services),
    disk: async () => checkDisk(diskFacts(home)),
    files: () => privacyOutcomes(services),
    database: () => checkDatabase(services),
    controller: () => controllerOutcomes(services),
    versions: () => versionOutcomes(services, projects, source),
    ssh: async () => checkSsh(await sshFacts(services)),
    login: withSettings(() => loginOutcomes(services, projects, source)),
    endpoints: withSettings(async () => checkEndpoints(await servers())),
    clock: withSettings(async () => checkClock(await servers())),
    permissions: withSettings(() => permissionOutcomes(services, projects, source)),
    tpus: withSettings(() => cloudOutcomes(services, projects)),
    orphans: withSettings(() => orphanOutcomes(services, projects)),
    notifications: withSettings(() => notificationOutcomes(services)),
    clusters: () => clusterOutcomes(services),
  };
  return runDoctor(checks, onChange);
}

async function settingsOutcomes(services: Services): Promise<readonly Outcome[]> {
  const file = settingsFile(services.home);
  const [own, cluster] = await Promise.all([
    checkSettings(file, () => services.settings()),
    checkSettings(file, () => services.clusterSettings()),
  ]);
  const problems = [...own, ...cluster].filter(({ state }) => state !== 'ok');
  // Both read the same file.
  const byMessage = new Map(problems.map((one) => [one.message, one]));
  if (problems.length > 0) return [...byMessage.values()];
  const layers = await settingsLayers(services.settingsFiles());
  const doubts = (await Promise.all(layers.map((layer) => settingsWarnings(layer)))).flat();
  return doubts.length === 0 ? own : doubts.map((doubt) => warning(doubt, `edit ${file}`));
}

/** The first call's promise for every call. */
function once<T>(read: () => Promise<T>): () => Promise<T> {
  let reading: Promise<T> | undefined;
  return () => (reading ??= read());
}

/** The projects that `tpus` checks. */
async function projectsOf(services: Services): Promise<readonly string[]> {
  const settings = await services.settings();
  const file = databaseFile(services.home);
  const jobs = existsSync(file)
    ? await withReadOnlyStore(file, async (store) => (await store.list({ maxFinished: maxFinishedJobs })).jobs)
    : [];
  const specs = tpuSpecs(jobs, settings.tpu.forgottenProjects);
  return tpuScopes({ all: true }, { ...settings.tpu, grants: settings.grants }, specs).map(({ project }) => project);
}

async function googleProjects(services: Services, projects: () => Promise<readonly string[]>) {
  const settings = await services.settings();
  return (await projects()).filter((project) => !isServedByEmulator(settings, project));
}

const notUsed = [ok('no project of Google Cloud is used')];
const emulatorOnly = [ok('no project of Google Cloud is used; the TPU emulator needs no login')];

// ------------------------------------------------------------------------------------------ this machine

function diskFacts(home: string): DiskFacts {
  const exists = existsSync(home);
  let folder = home;
  while (!existsSync(folder) && folder !== dirname(folder)) folder = dirname(folder);
  const { bavail, bsize, files, ffree } = statfsSync(folder);
  return {
    folder: home,
    exists,
    isWritable: isAllowed(folder, constants.W_OK),
    freeBytes: bavail * bsize,
    freeFiles: files === 0 ? null : ffree,
  };
}

async function privacyOutcomes(services: Services): Promise<readonly Outcome[]> {
  const { home } = services;
  const secrets = await services.settings().then(
    ({ notify }) => secretFiles(services, notify),
    (): readonly string[] => [],
  );
  const files = [...secrets, settingsFile(home), databaseFile(home)].flatMap((path) => {
    const mode = modeOf(path);
    return mode === null ? [] : [{ path, mode, isSecret: secrets.includes(path) }];
  });
  return checkPrivacy({ folder: home, mode: modeOf(home) ?? 0, isShared: isGroupShared(home) }, files);
}

/** Null for a path that does not exist or cannot be reached. */
function modeOf(path: string): number | null {
  try {
    return statSync(path).mode;
  } catch {
    return null;
  }
}

function isAllowed(path: string, mode: number): boolean {
  try {
    accessSync(path, mode);
    return true;
  } catch {
    return false;
  }
}

async function checkDatabase({ home }: Services): Promise<readonly Outcome[]> {
  const file = databaseFile(home);
  if (!existsSync(file)) return [ok('there is none yet; the first job creates it')];
  try {
    const { jobs } = await withReadOnlyStore(file, (store) => store.list({ maxFinished: 0 }));
    return [ok(`${file} can be read; ${pluralize(jobs.length, 'unfinished job')}`)];
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    return [problem(error.message, error.lines[0] ?? null)];
  }
}

async function controllerOutcomes(services: Services): Promise<readonly Outcome[]> {
  const { io, home } = services;
  const { running, pid, version, isOutdated } = await (await services.controller()).status();
  const file = databaseFile(home);
  const facts = { running, pid, version, isOutdated, ownVersion: io.version, now: io.now() };
  if (!existsSync(file))
    return checkController({ ...facts, unfinishedJobs: 0, leaseExpiresAt: Number.POSITIVE_INFINITY, nextPassAt: null });
  return withReadOnlyStore(file, async (store) => {
    const [{ jobs }, lease, nextPassAt] = await Promise.all([
      store.list({ maxFinished: 0 }),
      store.lease(),
      store.nextWake(),
    ]);
    return checkController({
      ...facts,
      unfinishedJobs: jobs.length,
      leaseExpiresAt: lease?.expiresAt ?? null,
      nextPassAt,
    });
  });
}

async function versionOutcomes(
  services: Services,
  projects: () => Promise<readonly string[]>,
  source: () => Promise<LoginSource>,
): Promise<readonly Outcome[]> {
  const { io } = services;
  const entry = io.launcher.at(-1) ?? '';
  // With invalid settings nothing is known about the cloud.
  const google = await googleProjects(services, projects).catch(() => []);
  const needsGcloud = google.length > 0 && (await source()).kind === 'gcloud';
  const usesCluster = await services.isClusterConfigured();
  const [gcloud, kubectl] = await Promise.all([
    needsGcloud ? firstLine(services, ['gcloud', '--version']) : undefined,
    usesCluster ? firstLine(services, ['kubectl', 'version', '--client']) : undefined,
  ]);
  const facts = {
    // For example "Node.js/26"; only main.ts touches `process`.
    node: navigator.userAgent.replace('/', ' '),
    jobman: io.version,
    isBundle: entry.includes('bundle') || existsSync(join(dirname(entry), '../dist/bundle/main.cjs')),
    newer: knownNewerVersion(services),
    gcloud,
    kubectl: kubectl === null ? null : kubectl?.replace('Client Version:', 'kubectl'),
  };
  return checkVersions(facts);
}

const programTimeout: Duration = 10 * second;

/** Of what the program prints; null if it cannot run. */
async function firstLine({ io }: Pick<Services, 'io'>, argv: readonly string[]): Promise<string | null> {
  const result = await runProcess({ argv, env: io.env, timeoutMs: programTimeout, maxOutputBytes: 10_000 });
  if (result.error !== null || result.exitCode !== 0) return null;
  const text = Buffer.concat([result.stdout, result.stderr]).toString('utf8');
  return text.trim().split('\n')[0] ?? '';
}

async function sshFacts(services: Services): Promise<SshFacts> {
  const keyFile = ownKeyFile(services.home);
  const keyMode = modeOf(keyFile);
  const socket = services.io.env['SSH_AUTH_SOCK'] ?? '';
  const [program, failure] = await Promise.all([
    firstLine(services, ['ssh', '-V']),
    socket === '' ? null : connectionFailure(socket),
  ]);
  return {
    keyFile,
    keyMode,
    isKeyReadable: keyMode === null || isAllowed(keyFile, constants.R_OK),
    folderMode: modeOf(dirname(keyFile)),
    agent: socket === '' ? 'none' : { failure },
    program,
  };
}

const agentTimeout: Duration = 3 * second;

function connectionFailure(path: string): Promise<string | null> {
  return new Promise((resolve) => {
    const socket = connect({ path, timeout: agentTimeout });
    const end = (failure: string | null) => {
      socket.destroy();
      resolve(failure);
    };
    socket.on('connect', () => end(null));
    socket.on('timeout', () => end(`no answer within ${agentTimeout / second} s`));
    socket.on('error', (error) => end(messageOf(error)));
  });
}

// ------------------------------------------------------------------------------------------ clouds

type LoginSource =
  | { readonly kind: 'command' }
  | { readonly kind: 'file'; readonly file: string; readonly account: string | null }
  | { readonly kind: 'gcloud'; readonly account: string | null };

/** Names of accounts only; nothing secret is kept. */
const credentialFile = { type: 'string', client_email: 'string', account: 'string' } as const;

/** The source that the login uses first. A metadata server, which has no file, counts as gcloud. */
async function loginSource(services: Services, settings: Settings): Promise<LoginSource> {
  const { io } = services;
  if (settings.tpu.tokenCommand !== null) return { kind: 'command' };
  const folder = io.env['CLOUDSDK_CONFIG'] ?? join(io.userHome, '.config', 'gcloud');
  const file = io.env['GOOGLE_APPLICATION_CREDENTIALS'] ?? join(folder, 'application_default_credentials.json');
  if (existsSync(file)) {
    const found = parseShape(readFileSync(file, 'utf8'), credentialFile) ?? {};
    const account = found.client_email ?? found.account ?? '';
    return { kind: 'file', file, account: account === '' ? null : account };
  }
  const account = await firstLine(services, ['gcloud', 'config', 'get-value', 'account', '--quiet']);
  return { kind: 'gcloud', account: account === '' || account === '(unset)' ? null : account };
}

async function loginOutcomes(
  services: Services,
  projects: () => Promise<readonly string[]>,
  loginSourceOf: () => Promise<LoginSource>,
): Promise<readonly Outcome[]> {
  const settings = await services.settings();
  const [project] = await googleProjects(services, projects);
  if (project === undefined) return (await projects()).length === 0 ? notUsed : emulatorOnly;
  try {
    await services.checkLogin(project);
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    return [problem([error.message, ...error.lines].join(': '), 'gcloud auth application-default login')];
  }
  const { endpoint } = settings.tpu;
  if (endpoint !== null && isLoopback(endpoint)) return [ok(`${endpoint} needs no login`)];
  const source = await loginSourceOf();
  if (source.kind === 'command') return [ok('the command of the setting tpu.tokenCommand prints a token')];
  if (source.kind === 'gcloud') return [ok(`${source.account ?? 'an account'}, by gcloud or the metadata server`)];
  return [ok(`${source.account ?? 'an account'}, by ${source.file}`)];
}

const reachTimeout: Duration = 8 * second;

async function reachAll(
  services: Services,
  settings: Settings,
  projects: readonly string[],
): Promise<readonly ReachFacts[]> {
  const google = projects.some((project) => !isServedByEmulator(settings, project));
  const emulator = projects.some((project) => isServedByEmulator(settings, project))
    ? await findEmulator(services.home)
    : undefined;
  const servers = [
    ...(google
      ? (['tpu', 'quota', 'resourceManager', 'storage'] as const).map((name) => ({
          name: apiNames[name],
          url: serverOf(settings, name),
        }))
      : []),
    ...(emulator === undefined ? [] : [{ name: 'the TPU emulator', url: emulator.url }]),
  ];
  const client = createHttpClient({ env: services.io.env, limits: { bytes: 1_000_000 } });
  try {
    return await Promise.all(servers.map((server) => reach(services, client, server)));
  } finally {
    client.close();
  }
}

const apiNames = {
  tpu: 'the Cloud TPU API',
  quota: 'the Cloud Quotas API',
  resourceManager: 'the Resource Manager API',
  storage: 'Cloud Storage',
} as const;

/** Without login: any answer proves that the server can be reached. */
async function reach(
  { io }: Services,
  client: ReturnType<typeof createHttpClient>,
  { name, url }: { readonly name: string; readonly url: string },
): Promise<ReachFacts> {
  const sentAt = io.now();
  const limits = { connect: reachTimeout, answer: reachTimeout, total: reachTimeout };
  const reply = await client.request({ url, path: '/', limits });
  if (reply instanceof NoReply) return { name, url, failure: reply.message, skewMs: null };
  const date = Date.parse(String(reply.headers['date'] ?? ''));
  const hasOwnClock = !Number.isNaN(date) && !isLoopback(url);
  return { name, url, failure: null, skewMs: hasOwnClock ? date - (sentAt + io.now()) / 2 : null };
}

async function permissionOutcomes(
  services: Services,
  projects: () => Promise<readonly string[]>,
  loginSourceOf: () => Promise<LoginSource>,
): Promise<readonly Outcome[]> {
  const { io, home } = services;
  const settings = await services.settings();
  const wanted = new Map((await projects()).map((project) => [project, tpuPermissions] as const));
  const { exportTable, queryProject } = settings.billing;
  if (exportTable !== null) {
    const project = queryProject ?? projectOfTable(exportTable);
    wanted.set(project, [...(wanted.get(project) ?? []), billingPermission]);
  }
  if (wanted.size === 0) return notUsed;
  const apiFor = createGoogleService({ io, home, settings, now: () => io.now(), name: 'resourceManager' });
  const isGoogle = [...wanted.keys()].some((project) => !isServedByEmulator(settings, project));
  const source = isGoogle ? await loginSourceOf() : null;
  const account = source === null || source.kind === 'command' ? null : source.account;
  const results = [...wanted].map(async ([project, permissions]): Promise<readonly Outcome[]> => {
    if (isServedByEmulator(settings, project)) return [ok('the TPU emulator needs no permission')];
    try {
      return checkPermissions(project, await missingPermissions(apiFor(project), project, permissions), account);
    } catch (error) {
      return [failedCheck(error)];
    }
  });
  return (await Promise.all(results)).flat();
}

/** The doctor changes nothing. */
const noCache: QuotaCache = { read: () => undefined, write: () => undefined };

/** The calls that jobman makes, because a policy may refuse what the permissions allow. */
async function cloudOutcomes(
  services: Services,
  projects: () => Promise<readonly string[]>,
): Promise<readonly Outcome[]> {
  if ((await projects()).length === 0) return notUsed;
  const { unchecked, unread, projects: names, rows } = await readQuota(services, {}, noCache);
  const stopped = unchecked.filter(({ isEmulatorStopped }) => isEmulatorStopped);
  const found = [
    ...stopped.map(() => ok('the TPU emulator does not run; a job starts it')),
    ...unchecked
      .filter(({ isEmulatorStopped }) => !isEmulatorStopped)
      .map(({ project, zone, message }) =>
        problem(
          `the TPUs of ${zone === null ? '' : `${zone} in `}${project} cannot be listed: ${message}`,
          'jobman tpus',
        ),
      ),
    ...unread
      .filter(({ project }) => stopped.every((one) => one.project !== project))
      .map(({ project, message, fix }) => warning(`the quotas of ${project} cannot be read: ${message}`, fix)),
  ];
  if (found.length > 0) return found;
  const used = rows.reduce((sum, { usedChips }) => sum + (usedChips ?? 0), 0);
  return [ok(`the TPUs of ${pluralize(names.length, 'project')} can be listed; ${pluralize(used, 'chip')} in use`)];
}

async function orphanOutcomes(
  services: Services,
  projects: () => Promise<readonly string[]>,
): Promise<readonly Outcome[]> {
  if (!existsSync(databaseFile(services.home)) || (await projects()).length === 0) return [ok('none')];
  const collector = await services.orphans();
  try {
    const { orphans, unchecked } = await collector.observe();
    const present = orphans.filter(({ presence }) => presence !== 'gone');
    const silent = unchecked.filter(({ isEmulatorStopped }) => !isEmulatorStopped);
    return [
      ...(present.length === 0
        ? []
        : [problem(`${pluralize(present.length, 'orphan')} of this jobman may cost money`, 'jobman gc')]),
      ...silent.map(({ project, message }) => unknown(`${project} could not be checked: ${message}`, 'jobman gc')),
      ...(present.length === 0 && silent.length === 0 ? [ok('none')] : []),
    ];
  } finally {
    await collector.close();
  }
}

/** Enough to contain the newest message to each recipient. */
const readMessages = 500;

async function notificationOutcomes(services: Services): Promise<readonly Outcome[]> {
  const { notify } = await services.settings();
  const recipients = configuredRecipients(notify);
  const hasMessages = existsSync(databaseFile(services.home));
  const client = hasMessages ? await services.client() : undefined;
  const secretProblems = await services.secretProblems();
  const held = (await client?.heldEvents(notify)) ?? [];
  return checkNotifications(
    recipients,
    (await client?.messages(readMessages)) ?? [],
    held.map((one) => ({ recipient: one.recipient, phrase: heldPhrase(one, services.io.now()) })),
    recipients.flatMap((recipient) => {
      const why = recipientProblem(recipient, notify, secretProblems);
      return why === null ? [] : [{ recipient, problem: why }];
    }),
    ((await client?.recipientsInUse()) ?? []).filter(
      ({ recipient }) =>
        !recipients.includes(recipient) && recipientProblem(recipient, notify, secretProblems) !== null,
    ),
  );
}

async function clusterOutcomes(services: Services): Promise<readonly Outcome[]> {
  if (!(await services.isClusterConfigured())) return [ok('no cluster is used')];
  try {
    const cluster = await services.cluster({ quiet: true });
    try {
      const { context, namespace, user } = cluster.context();
      for await (const _page of cluster.jobs({ namespace })) break;
      return [ok(`${context} answered; namespace ${namespace}, as ${user}`)];
    } finally {
      await cluster.close();
    }
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    return [problem(error.message, error.lines[0] ?? 'kubectl get jobs')];
  }
}
