// Doctor: reads the facts of `jobman doctor`. Changes nothing, starts nothing, and creates no file.

import { openSshPool } from './ssh-pool.ts';
import type { HostPath } from '../app/client.ts';
import { hostsOf, noShell } from '../app/hosts.ts';
import { hostLogin } from '../backends/hosts/hosts.ts';
import { sshCommand } from '../remote/ssh-connection.ts';
import { createSshLogins } from '../remote/ssh-logins.ts';
import { accessSync, constants, existsSync, readFileSync, statfsSync, statSync } from 'node:fs';
import { connect, isIP } from 'node:net';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import {
  checkClock,
  checkController,
  checkDatabaseError,
  checkData,
  checkDisk,
  checkEndpoints,
  checkHome,
  checkLogin,
  checkNotifications,
  checkPermissions,
  checkPrivacy,
  isOpenToOthers,
  checkServer,
  checkSettings,
  checkSsh,
  checkVersions,
  billingPermission,
  failedCheck,
  memberOf,
  ok,
  problem,
  requires,
  runDoctor,
  tpuPermissions,
  unknown,
  warning,
  type Check,
  type CheckResult,
  type DiskFacts,
  type HomeFacts,
  type LoginFacts,
  type LoginSource,
  type Need,
  type Outcome,
  type PrivateFile,
  type ReachFacts,
  type ServerFacts,
  type SshFacts,
  checkHost,
  hostScript,
} from '../app/doctor.ts';
import { mapConcurrent, withTimeout } from '../app/concurrency.ts';
import { JobmanError, messageOf, StoreError } from '../app/errors.ts';
import { otherOwnerOf } from './logins.ts';
import { isGroupShared, ownUid, packageFolder, settingsFile } from '../files/files.ts';
import { asClause, pluralize } from '../app/format.ts';
import { heldTpus } from '../app/held-tpus.ts';
import { parseShape } from '../app/json.ts';
import { heldPhrase } from '../app/notifications/digest.ts';
import { configuredRecipients, recipientProblem } from '../app/notifications/recipients.ts';
import type { QuotaReport } from '../app/quota.ts';
import { unseal } from '../app/sealing.ts';
import type { Services } from '../app/services.ts';
import { resolveSettingPath, settingsWarnings, type Settings } from '../app/settings.ts';
import { settingsLayers } from '../files/settings-files.ts';
import { maxFinishedJobs, tpuScopes, tpuSpecs } from '../app/tpus.ts';
import { NoLoginError } from '../backends/tpu/api.ts';
import { quote } from '../catalogue/shell.ts';
import { second, type Duration, type Instant } from '../core/model/time.ts';
import { readCertificate, type TlsFiles } from '../files/certificates.ts';
import { readSecretKeys } from '../files/secret-keys.ts';
import { projectOfTable } from '../google/billing-export.ts';
import { missingPermissions } from '../google/permissions.ts';
import { createHttpClient, isLoopback } from '../http/client.ts';
import { NoReply } from '../http/reply.ts';
import { runProcess } from '../remote/process.ts';
import { loadKey, loadSsh2, ownKeyFile } from '../remote/ssh-keys.ts';
import { displayUrl } from '../store/postgres-errors.ts';
import { withReadOnlyStore } from '../store/store.ts';
import { openData } from './data.ts';
import { findEmulator, isServedByEmulator } from './emulator-service.ts';
import { checkLogin as requireLogin, createGoogleService, createTpuApis, serverOf } from './google-api.ts';
import { secretFiles, secretProblems } from './notify.ts';
import { databaseFile, databaseOf, hasDatabase } from './paths.ts';
import { secretsKeyFile } from './secrets.ts';
import { knownNewerVersion } from './version-check.ts';

/** See `Services.doctor`. */
export function diagnose(
  services: Services,
  onChange: (running: readonly string[]) => void,
): Promise<readonly CheckResult[]> {
  const projects = once(() => projectsOf(services));
  const servers = once(async () => reachAll(services, await services.settings(), await projects()));
  const source = once(() => loginSource(services));
  const lists = once(async () => (await services.client()).quota({ isKept: false }));

  const homeCheck = once(async () => checkHome(homeFacts(services)));
  const home: Need = { what: 'a usable home', check: homeCheck };
  const settings: Need = { what: 'valid settings', check: once(requires([home], () => settingsOutcomes(services))) };
  const database: Need = { what: 'the database', check: once(requires([home], () => checkDatabase(services))) };
  const endpoints = once(
    requires([home, settings, database], async () => checkEndpoints(await servers(), proxyVariable(services.io.env))),
  );
  const clock = once(requires([home, settings, database], async () => checkClock((await servers()).filter(isRemote))));
  // Without quotas and buckets, TPUs can still be listed.
  const answers: Need = {
    what: 'an answer from the cloud',
    check: async () => checkEndpoints((await servers()).filter(isTpuServer), null),
  };
  const loginCheck = once(
    requires([home, settings, database, answers], () => loginOutcomes(services, { projects, source, clock })),
  );
  const cloud: readonly Need[] = [home, settings, database, answers, { what: 'a login', check: loginCheck }];
  const checks: Readonly<Record<string, Check>> = {
    home: homeCheck,
    settings: settings.check,
    disk: requires([home], async () => checkDisk(diskFacts(services.home))),
    data: requires([home, settings], () => dataOutcomes(services)),
    files: requires([home], () => privacyOutcomes(services)),
    database: database.check,
    controller: requires([home, database], () => controllerOutcomes(services)),
    versions: () => versionOutcomes(services, { projects, source }),
    ssh: requires([home], async () => checkSsh(await sshFacts(services))),
    hosts: requires([home, settings], () => hostOutcomes(services)),
    server: requires([home, settings], async () => checkServer(await serverFacts(services), services.io.now())),
    login: loginCheck,
    endpoints,
    clock,
    permissions: requires(cloud, () => permissionOutcomes(services, { projects, source, lists })),
    tpus: requires(cloud, () => cloudOutcomes(services, { projects, source, lists })),
    orphans: requires(cloud, () => orphanOutcomes(services, { projects, lists })),
    notifications: requires([home, settings, database], () => notificationOutcomes(services)),
    clusters: requires([home, settings], () => clusterOutcomes(services)),
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
  return doubts.length === 0 ? own : doubts.map((doubt) => warning(doubt, `\${EDITOR:-vi} ${quote(file)}`));
}

/** Reads once, and gives every caller the same promise. */
function once<T>(read: () => Promise<T>): () => Promise<T> {
  let reading: Promise<T> | undefined;
  return () => (reading ??= read());
}

/** The projects that `tpus` checks. */
async function projectsOf(services: Services): Promise<readonly string[]> {
  const settings = await services.settings();
  const database = databaseOf(services);
  const jobs = hasDatabase(database)
    ? await withReadOnlyStore(database, async (store) => (await store.list({ maxFinished: maxFinishedJobs })).jobs)
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

// ------------------------------------------------------------------------------------------ hosts

/** Asked at a time. */
const maxHosts = 16;

/** Connects to each host of the settings, as a job does. */
async function hostOutcomes(services: Services): Promise<readonly Outcome[]> {
  const { io, home } = services;
  const hosts = hostsOf(await services.settings()).filter(({ ssh }) => ssh !== null);
  const own = existsSync('/bin/sh') ? [] : [warning(noShell, 'jobman hosts add NAME --ssh ADDRESS')];
  if (hosts.length === 0) return own.length > 0 ? own : [ok('the settings name no other machine')];
  const pool = openSshPool({ io, home });
  const logins = createSshLogins({ home, pool });
  try {
    const others = await mapConcurrent(hosts, maxHosts, async ({ name, ssh, gpus }) => {
      const login = hostLogin(name, ssh ?? '', 0);
      const transport = await logins.transport(login);
      const answer = await transport.run({ script: hostScript, timeoutMs: 15 * second, maxOutputBytes: 4_096 });
      return checkHost({ name, ssh: ssh ?? '', gpus, command: sshCommand(login) }, answer);
    });
    return [...own, ...others];
  } finally {
    pool.close();
  }
}

// ------------------------------------------------------------------------------------------ server

async function serverFacts(services: Services): Promise<ServerFacts> {
  const { io, home } = services;
  const settings = await services.settings();
  const { tls, oidc } = settings.server;
  const pathOf = (path: string) => resolveSettingPath(path, { home, userHome: io.userHome });
  const keyFile = secretsKeyFile({ io, home, settings });
  return {
    certificate:
      tls.certificate === null || tls.key === null
        ? onlyOneFile(tls)
        : certificateFacts(
            { certificate: pathOf(tls.certificate), key: pathOf(tls.key) },
            { now: io.now(), host: oidc?.url === undefined ? null : new URL(oidc.url).hostname },
          ),
    secretsKey:
      keyFile === null ? null : { path: keyFile, problem: await keyFileProblem(keyFile, databaseOf(services)) },
  };
}

function onlyOneFile({ certificate, key }: Settings['server']['tls']): ServerFacts['certificate'] {
  const path = certificate ?? key;
  const [is, isNot] = key === null ? ['certificate', 'key'] : ['key', 'certificate'];
  return path === null ? null : { path, problems: [`server.tls.${is} is set, but server.tls.${isNot} is not`] };
}

function certificateFacts(
  files: TlsFiles,
  { now, host }: { readonly now: Instant; readonly host: string | null },
): ServerFacts['certificate'] {
  const path = files.certificate;
  try {
    const { chain } = readCertificate(files, now);
    const [own] = chain;
    const all = (own?.subjectAltName ?? '').split(', ');
    const names = all.flatMap((name) => /^(?:DNS|IP Address):(.*)/.exec(name)?.[1] ?? []);
    const isNamed = host === null || (isIP(host) === 0 ? own?.checkHost(host) : own?.checkIP(host)) !== undefined;
    const expiresAt = Math.min(...chain.map(({ validToDate }) => validToDate.getTime()));
    return { path, problems: null, names, expiresAt, foreignHost: isNamed ? null : host };
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    return { path, problems: error.lines };
  }
}

async function keyFileProblem(
  path: string,
  database: ReturnType<typeof databaseOf>,
): Promise<NonNullable<ServerFacts['secretsKey']>['problem']> {
  try {
    const keys = readSecretKeys(path);
    const rows = hasDatabase(database) ? await withReadOnlyStore(database, ({ secrets }) => secrets.all()) : [];
    const row = rows.find(({ key }) => !keys.some(({ id }) => id === key));
    if (row !== undefined) unseal(keys, row);
    return null;
  } catch (error) {
    // Another check reports the problems of the database.
    if (error instanceof StoreError) return null;
    if (!(error instanceof JobmanError)) throw error;
    return { message: asClause(error.message), remedy: error.lines[0] ?? null };
  }
}

// ------------------------------------------------------------------------------------------ this machine

function homeFacts({ io, home }: Services): HomeFacts {
  const folder = existingFolder(home);
  const stats = statSync(folder);
  const isHome = folder === home;
  const failure = accessFailure(folder, constants.R_OK | constants.X_OK);
  const writeFailure = accessFailure(folder, constants.W_OK);
  return {
    folder: home,
    isNamed: (io.env['JOBMAN_HOME'] ?? '') !== '',
    kind: stats.isDirectory() ? (isHome ? 'folder' : 'absent') : 'other',
    isReadable: failure === null,
    isWritable: writeFailure === null,
    isReadOnlyFileSystem: writeFailure === 'EROFS',
    user: io.user,
    isOwn: stats.uid === ownUid(),
  };
}

/** The path, or its nearest parent that exists. */
function existingFolder(path: string): string {
  let folder = path;
  while (!existsSync(folder) && folder !== dirname(folder)) folder = dirname(folder);
  return folder;
}

/** The code of the error; null if the access is allowed. */
function accessFailure(path: string, mode: number): string | null {
  try {
    accessSync(path, mode);
    return null;
  } catch (error) {
    return error instanceof Error && 'code' in error ? String(error.code) : messageOf(error);
  }
}

function diskFacts(folder: string): DiskFacts {
  const { bavail, bsize, files, ffree } = statfsSync(existingFolder(folder));
  return { folder, freeBytes: bavail * bsize, freeFiles: files === 0 ? null : ffree };
}

/** Writes a small object and removes it, because a login may have only one of the two rights. */
async function dataOutcomes(services: Services): Promise<readonly Outcome[]> {
  const settings = await services.settings();
  const { data: location } = settings.server;
  if (location === null) return [ok('logs and files of jobs are in the home')];
  const { io, home } = services;
  const { bucket } = await openData({ io, home, settings });
  let failure: string | null = null;
  let full: readonly Outcome[] = [];
  try {
    if (bucket === null) {
      const folder = resolveSettingPath(location, { home, userHome: io.userHome });
      const existing = existingFolder(folder);
      const code = accessFailure(existing, constants.R_OK | constants.W_OK | constants.X_OK);
      if (code !== null) failure = `${io.user} cannot read and write ${folder} (${code})`;
      // The check of the disk knows only that of the home.
      else if (statSync(existing).dev !== statSync(home).dev)
        full = checkDisk(diskFacts(folder)).filter(({ state }) => state !== 'ok');
    } else {
      const [name, bytes] = [`doctor-${crypto.randomUUID()}`, Buffer.from('jobman doctor')];
      const object = await bucket.bucket.write(name, bytes, null);
      if (object !== null) await bucket.bucket.read(object, 0, bytes.length);
      for await (const one of bucket.bucket.list('doctor-')) await bucket.bucket.remove(one.name);
    }
  } catch (error) {
    failure = messageOf(error);
  }
  return full.length > 0 ? full : checkData({ location, failure, waiting: bucket?.logs.waiting() ?? 0 });
}

async function privacyOutcomes(services: Services): Promise<readonly Outcome[]> {
  const { home } = services;
  const secrets = await services.settings().then(
    ({ notify }) => secretFiles(services, notify),
    (): readonly string[] => [],
  );
  const files = [...secrets, settingsFile(home), databaseFile(home)];
  return checkPrivacy(homeFolder(home), privateFiles(files, secrets));
}

/** See `Channels`. */
export async function openSecrets(services: Services): Promise<readonly HostPath[]> {
  const secrets = secretFiles(services, (await services.settings()).notify);
  const open = privateFiles(secrets, secrets).filter((file) => isOpenToOthers(file, homeFolder(services.home)));
  return open.map(({ path }) => ({ host: hostname(), path }));
}

function homeFolder(home: string): Parameters<typeof checkPrivacy>[0] {
  return { folder: home, mode: modeOf(home) ?? 0, isShared: isGroupShared(home) };
}

/** Paths of missing files are left out. */
function privateFiles(paths: readonly string[], secrets: readonly string[]): readonly PrivateFile[] {
  return paths.flatMap((path) => {
    const mode = modeOf(path);
    return mode === null ? [] : [{ path, mode, isSecret: secrets.includes(path) }];
  });
}

/** Null for a path that does not exist or cannot be reached. */
function modeOf(path: string): number | null {
  try {
    return statSync(path).mode;
  } catch {
    return null;
  }
}

async function checkDatabase(services: Services): Promise<readonly Outcome[]> {
  const database = databaseOf(services);
  if (!hasDatabase(database)) return [ok('there is none yet; the first job creates it')];
  try {
    const { jobs } = await withReadOnlyStore(database, (store) => store.list({ maxFinished: 0 }));
    const name = 'url' in database ? displayUrl(database.url) : database.file;
    const closed = await (await import('../store/rows.ts')).readClosed(database);
    if (closed !== null) return [warning(`${name} ${closed}, so it can only be read`, 'jobman restore --takeover')];
    return [ok(`${name} can be read; ${pluralize(jobs.length, 'unfinished job')}`)];
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    return [checkDatabaseError(error, upgradeCommand(services.io))];
  }
}

/** Null if jobman does not run from a clone. */
function upgradeCommand({ launcher }: Services['io']): string | null {
  const folder = packageFolder(launcher.at(-1) ?? '');
  return existsSync(join(folder, '.git')) ? `cd ${quote(folder)} && git pull && npm install` : null;
}

async function controllerOutcomes(services: Services): Promise<readonly Outcome[]> {
  const { io } = services;
  const { running, pid, version, isOutdated, otherDatabase, silentSinceAt } = await (
    await services.controller()
  ).status();
  const database = databaseOf(services);
  const facts = {
    running,
    pid,
    version,
    isOutdated,
    otherDatabase,
    silentSinceAt,
    ownVersion: io.version,
    now: io.now(),
  };
  if (!hasDatabase(database))
    return checkController({
      ...facts,
      unfinishedJobs: 0,
      undelivered: 0,
      held: null,
      leaseExpiresAt: Number.POSITIVE_INFINITY,
    });
  return withReadOnlyStore(database, async (store) => {
    const [{ jobs }, lease, held, pending, waiting] = await Promise.all([
      store.list({ maxFinished: 0 }),
      store.lease(io.now()),
      running ? null : heldTpus(store),
      store.notifications.pending(),
      store.notifications.waiting(io.now()),
    ]);
    return checkController({
      ...facts,
      unfinishedJobs: jobs.length,
      undelivered: [...pending, ...waiting].reduce((sum, { notices }) => sum + notices.length, 0),
      held,
      leaseExpiresAt: lease?.expiresAt ?? null,
    });
  });
}

async function versionOutcomes(
  services: Services,
  { projects, source }: Pick<CloudFacts, 'projects' | 'source'>,
): Promise<readonly Outcome[]> {
  const { io } = services;
  const entry = io.launcher.at(-1) ?? '';
  // With invalid settings nothing is known about the cloud.
  const google = await googleProjects(services, projects).catch(() => []);
  const needsGcloud = google.length > 0 && (await source()).kind === 'gcloud';
  const usesCluster = await services.isClusterConfigured();
  const [gcloud, kubectl] = await Promise.all([
    needsGcloud ? firstLine(services, ['gcloud', '--version']) : null,
    usesCluster ? firstLine(services, ['kubectl', 'version', '--client']) : null,
  ]);
  return checkVersions({
    // For example "Node.js/26"; only main.ts touches `process`.
    node: navigator.userAgent.replace('/', ' '),
    jobman: io.version,
    isBundle: entry.includes('bundle') || existsSync(join(dirname(entry), '../dist/bundle/main.cjs')),
    newer: knownNewerVersion(services),
    upgrade: upgradeCommand(io),
    programs: [gcloud, kubectl?.replace('Client Version:', 'kubectl') ?? null].filter((one) => one !== null),
  });
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
  const isKeyReadable = keyMode === null || accessFailure(keyFile, constants.R_OK) === null;
  const socket = services.io.env['SSH_AUTH_SOCK'] ?? '';
  const [program, failure] = await Promise.all([
    firstLine(services, ['ssh', '-V']),
    socket === '' ? null : connectionFailure(socket),
  ]);
  return {
    keyFile,
    keyMode,
    isKeyReadable,
    keyOwner: isGroupShared(services.home) ? await otherOwnerOf(keyFile) : null,
    keyProblem: keyMode !== null && isKeyReadable ? await problemOfKey(keyFile) : null,
    folderMode: modeOf(dirname(keyFile)),
    agent: socket === '' ? 'none' : { failure },
    program,
  };
}

async function problemOfKey(file: string): Promise<string | null> {
  const { utils } = await loadSsh2();
  const loaded = await loadKey(file, (text) => {
    const key = utils.parseKey(text);
    return Array.isArray(key) ? (key[0] ?? new Error('it is empty')) : key;
  });
  return loaded !== undefined && 'problem' in loaded ? loaded.problem : null;
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

/** Facts that several checks need; each is read once. */
interface CloudFacts {
  readonly projects: () => Promise<readonly string[]>;
  readonly source: () => Promise<LoginSource>;
  readonly lists: () => Promise<QuotaReport>;
  readonly clock: Check;
}

/** Names of accounts only; nothing secret is kept. */
const credentialFile = { type: 'string', client_email: 'string', account: 'string' } as const;

async function loginSource(services: Services): Promise<LoginSource> {
  const { io } = services;
  if ((await services.settings()).tpu.tokenCommand !== null) return { kind: 'command' };
  const named = io.env['GOOGLE_APPLICATION_CREDENTIALS'] ?? '';
  const folder = io.env['CLOUDSDK_CONFIG'] ?? join(io.userHome, '.config', 'gcloud');
  const file = named === '' ? join(folder, 'application_default_credentials.json') : named;
  if (named !== '' || existsSync(file)) {
    const found = parseShape(textOf(file), credentialFile) ?? {};
    return { kind: 'file', file, isNamed: named !== '', account: found.client_email || found.account || null };
  }
  const account = await firstLine(services, ['gcloud', 'config', 'get-value', 'account', '--quiet']);
  return { kind: 'gcloud', account: account === '' || account === '(unset)' ? null : account };
}

/** Empty for a file that cannot be read. */
function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

async function loginOutcomes(
  services: Services,
  { projects, source, clock }: Pick<CloudFacts, 'projects' | 'source' | 'clock'>,
): Promise<readonly Outcome[]> {
  const { endpoint } = (await services.settings()).tpu;
  const [project] = await googleProjects(services, projects);
  if (project === undefined) return (await projects()).length === 0 ? notUsed : emulatorOnly;
  const [answer, login, clockOutcomes] = await Promise.all([loginAnswer(services, project), source(), clock()]);
  if (endpoint !== null && isLoopback(endpoint) && answer.state === 'accepted')
    return [ok(`${endpoint} needs no login`)];
  const isClockWrong = clockOutcomes.some(({ state }) => state === 'problem');
  return checkLogin({ source: login, ...answer, isClockWrong });
}

async function loginAnswer(services: Services, project: string): Promise<Pick<LoginFacts, 'state' | 'reason'>> {
  const { io, home } = services;
  try {
    const login = requireLogin({ io, settings: await services.settings() }, project).then(() => null);
    const late = () => `Google Cloud's login did not answer within ${reachTimeout / second} s`;
    const reason = await withTimeout(reachTimeout, login, late);
    if (reason !== null) return { state: 'silent', reason };
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    return error instanceof NoLoginError
      ? { state: 'refused', reason: error.lines[0] ?? error.message }
      : { state: 'silent', reason: error.message };
  }
  // Google may have revoked a token that has not expired.
  const apis = createTpuApis({ io, home, settings: await services.settings(), now: () => io.now() });
  const answer = await apis.runningApiFor(project).listNodes({ project, zone: '-' });
  return !answer.ok && answer.error.noLogin === true
    ? { state: 'refused', reason: 'Google Cloud refuses its token' }
    : { state: 'accepted', reason: '' };
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
    ...(emulator === undefined ? [] : [{ name: emulatorName, url: emulator.url }]),
  ];
  const client = createHttpClient({ env: services.io.env, limits: { bytes: 1_000_000 } });
  try {
    return await Promise.all(servers.map((server) => reach(services, client, server)));
  } finally {
    client.close();
  }
}

const emulatorName = 'the TPU emulator';
const apiNames = {
  tpu: 'the Cloud TPU API',
  quota: 'the Cloud Quotas API',
  resourceManager: 'the Resource Manager API',
  storage: 'Cloud Storage',
} as const;

const isRemote = ({ url }: ReachFacts) => !isLoopback(url);
const isTpuServer = ({ name }: ReachFacts) => name === apiNames.tpu || name === emulatorName;

const proxyNames = ['HTTPS_PROXY', 'https_proxy'] as const;

/** The variable that names a proxy for https; null without one. */
function proxyVariable(env: Services['io']['env']): string | null {
  return proxyNames.find((name) => (env[name] ?? '') !== '') ?? null;
}

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
  { projects, source, lists }: Pick<CloudFacts, 'projects' | 'source' | 'lists'>,
): Promise<readonly Outcome[]> {
  const settings = await services.settings();
  const wanted = await wantedPermissions(settings, projects);
  if (wanted.length === 0) return notUsed;
  const google = wanted.filter(({ project }) => !isServedByEmulator(settings, project));
  if (google.length === 0) return [ok('the TPU emulator needs no permission')];
  const { unchecked } = (await lists().catch(() => null)) ?? { unchecked: [] };
  const account = accountOf(await source());
  const results = google.map(async ({ project, permissions }): Promise<readonly Outcome[]> => {
    try {
      return checkPermissions(project, await permissionsMissingIn(services, project, permissions), account);
    } catch (error) {
      return [unchecked.some((one) => one.project === project) ? seeTpus(project) : failedCheck(error)];
    }
  });
  return (await Promise.all(results)).flat();
}

const seeTpus = (project: string): Outcome => unknown(`${project}: see tpus`);

function accountOf(source: LoginSource): string | null {
  return source.kind === 'command' ? null : source.account;
}

/** `jobman billing` needs one more in the project that runs its queries. */
async function wantedPermissions(settings: Settings, projects: CloudFacts['projects']) {
  const wanted = new Map((await projects()).map((project) => [project, tpuPermissions] as const));
  const { exportTable, queryProject } = settings.billing;
  if (exportTable !== null) {
    const project = queryProject ?? projectOfTable(exportTable);
    wanted.set(project, [...(wanted.get(project) ?? []), billingPermission]);
  }
  return [...wanted].map(([project, permissions]) => ({ project, permissions }));
}

async function permissionsMissingIn(services: Services, project: string, permissions: readonly string[]) {
  const { io, home } = services;
  const settings = await services.settings();
  const apiFor = createGoogleService({ io, home, settings, now: () => io.now(), name: 'resourceManager' });
  return missingPermissions(apiFor(project), project, permissions);
}

/** The doctor changes nothing. */

/** The calls that jobman makes, because a policy may refuse what the permissions allow. */
async function cloudOutcomes(
  services: Services,
  { projects, source, lists }: Pick<CloudFacts, 'projects' | 'source' | 'lists'>,
): Promise<readonly Outcome[]> {
  if ((await projects()).length === 0) return notUsed;
  const settings = await services.settings();
  const { unchecked, unread, projects: names, rows } = await lists();
  const account = accountOf(await source());
  const stopped = unchecked.filter(({ isEmulatorStopped }) => isEmulatorStopped);
  const silent = unchecked.filter(({ isEmulatorStopped }) => !isEmulatorStopped);
  const repairOf = (fix: string | null | undefined) => fix?.replace('user:YOU', memberOf(account)) ?? null;
  const failed = silent.map(async ({ project, zone, message, fix }): Promise<Outcome> => {
    const isEmulated = isServedByEmulator(settings, project);
    const missing = isEmulated
      ? []
      : await permissionsMissingIn(services, project, tpuPermissions).catch((): readonly string[] => []);
    const named = missing.find((one) => message.includes(one));
    if (named !== undefined) return unknown(`${project}: it needs ${named}`);
    const where = `${zone === null ? '' : `${zone} in `}${project}`;
    return problem(
      `the TPUs of ${where} cannot be listed: ${asClause(message)}`,
      isEmulated ? 'jobman emulator status' : (repairOf(fix) ?? `jobman tpus --project ${quote(project)}`),
    );
  });
  const found = [
    ...stopped.map(() => ok('the TPU emulator does not run; a job starts it')),
    ...(await Promise.all(failed)),
    // One cause hides the TPUs and the quotas of a project, and the permissions name a missing one.
    ...unread
      .filter(({ project, permission }) => permission === null && unchecked.every((one) => one.project !== project))
      .map(({ project, message, fix }) =>
        warning(`the quotas of ${project} cannot be read: ${message}`, repairOf(fix)),
      ),
  ];
  if (found.length > 0) return found;
  const used = rows.reduce((sum, { usedChips }) => sum + (usedChips ?? 0), 0);
  return [ok(`the TPUs of ${pluralize(names.length, 'project')} can be listed; ${pluralize(used, 'chip')} in use`)];
}

async function orphanOutcomes(
  services: Services,
  { projects, lists }: Pick<CloudFacts, 'projects' | 'lists'>,
): Promise<readonly Outcome[]> {
  if (!hasDatabase(databaseOf(services)) || (await projects()).length === 0) return [ok('none')];
  const unlisted = (await lists()).unchecked.map(({ project }) => project);
  const { orphans, unchecked } = await (await services.client()).orphans();
  const present = orphans.filter(({ presence }) => presence !== 'gone');
  const silent = unchecked.filter(({ isEmulatorStopped }) => !isEmulatorStopped);
  return [
    ...(present.length === 0
      ? []
      : [problem(`${pluralize(present.length, 'orphan')} of this jobman may cost money`, 'jobman gc')]),
    ...silent.map(({ project, message }) =>
      unlisted.includes(project)
        ? seeTpus(project)
        : unknown(`${project} could not be checked: ${message}`, 'jobman gc'),
    ),
    ...(present.length === 0 && silent.length === 0 ? [ok('none')] : []),
  ];
}

/** Enough to contain the newest message to each recipient. */
const readMessages = 500;

async function notificationOutcomes(services: Services): Promise<readonly Outcome[]> {
  const { notify } = await services.settings();
  const recipients = configuredRecipients(notify);
  const hasMessages = hasDatabase(databaseOf(services));
  const client = hasMessages ? await services.client() : undefined;
  const problems = await secretProblems(services, notify);
  const held = (await client?.heldEvents()) ?? [];
  return checkNotifications(
    recipients,
    (await client?.messages(readMessages)) ?? [],
    held.map((one) => ({ recipient: one.recipient, phrase: heldPhrase(one, services.io.now()) })),
    recipients.flatMap((recipient) => {
      const why = recipientProblem(recipient, notify, problems);
      return why === null ? [] : [{ recipient, problem: why }];
    }),
    ((await client?.recipientsInUse()) ?? []).filter(
      ({ recipient }) => !recipients.includes(recipient) && recipientProblem(recipient, notify, problems) !== null,
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
