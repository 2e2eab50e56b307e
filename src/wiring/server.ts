// Builds one running server: the HTTP API over the database of the home, and its controller.

import { delimiter, join, resolve } from 'node:path';
import { clientFor } from '../app/store-client.ts';
import { clusterAccessFor } from '../app/cluster/cluster-client.ts';
import { labClientFor } from '../lab/lab-client.ts';
import type { ClusterOptions } from '../app/cluster/cluster.ts';
import type { SharedClusters } from './cluster.ts';
import type { Actor } from '../core/model/user.ts';
import { createAuthenticate, type TokenView } from '../app/tokens.ts';
import { otherDatabaseError } from '../app/database-url.ts';
import { JobmanError, exitCode, messageOf, usageError } from '../app/errors.ts';
import { createMeter, type ReadableMeter } from '../app/meter.ts';
import type { ControllerService, Io, ServerFlags, Services } from '../app/services.ts';
import { settingsFile } from '../files/files.ts';
import { isNetwork, resolveSettingPath, type ServerSettings } from '../app/settings.ts';
import { readTls, type TlsFiles, type TlsIdentity } from '../files/certificates.ts';
import { isLoopback } from '../http/client.ts';
import { defaultLimits } from '../server/limits.ts';
import { listen, type Listening, type ListenOptions } from '../server/serve.ts';
import { createClientParts } from './client.ts';
import { createPageFiles } from './pages.ts';
import { dashboardFolder, databaseOf } from './paths.ts';
import { secretKeys } from './secrets.ts';
import { loadAllocation } from './worker-access.ts';
import { createLogger, fingerprintOf, runningElsewhere } from './controller-process.ts';
import { openLab } from './lab.ts';
import { createLoginRoutes } from './login.ts';

interface ServerOptions extends ServerFlags {
  readonly io: Io;
  readonly home: string;
  readonly controller: ControllerService;
  /** The services of this process, with the newest settings. */
  readonly openServices: () => Services;
}

const defaultAddress = '127.0.0.1:7420';

/** Runs until a signal or an exit request to the controller. Throws JobmanError. */
export async function runServer(options: ServerOptions): Promise<number> {
  const { io, home, controller, openServices } = options;
  const log = createLogger(io);
  const allSettings = await openServices().settings();
  const { server: settings } = allSettings;
  const { trustedProxies, text, ...address } = addressOf(options, settings, (line) => log.warn(line));
  const clients = createClients(openServices, home, (line) => log.warn(line));
  const meter = createMeter();
  warnAboutSecrets({ io, home, settings: allSettings }, (line) => log.warn(line));
  const { store, access } = await clients.parts();
  // An unusable database is reported here, with its own message.
  await store.changeCount();
  const login = createLoginRoutes(io, home, { ...clients, warn: (line) => log.warn(line) });
  await login.check();
  const former = await controller.status();
  if (former.isServer) throw runningElsewhere(home);
  if (former.otherDatabase !== null) throw otherDatabaseError(former.pid, former.otherDatabase);
  let server: Listening;
  try {
    server = await listen(address, {
      ...apiParts({ io, clients, meter, log }),
      folders: privatePaths(io, home, settings),
      trustedProxies,
      limits: { ...defaultLimits, requestsPerSecond: settings.rate_limit },
      authenticate: async (token) =>
        createAuthenticate({ access: (await clients.parts()).access, now: () => io.now() })(token),
      login,
      pages: {
        files: createPageFiles(dashboardFolder(io.launcher.at(-1) ?? '')),
        prefix: async () => pathOf((await login.url()) ?? '/'),
        redeemCode: () => null,
      },
    });
  } catch (error) {
    throw new JobmanError(`The server cannot listen at ${text}: ${messageOf(error)}.`, exitCode.failed, [
      'To choose another address: jobman server --listen 127.0.0.1:PORT',
    ]);
  }
  let closed: Promise<void> | undefined;
  const close = (): Promise<void> => (closed ??= server.close());
  const forget = io.onSignal(() => void close());
  try {
    // Stops the old controller only now, so that a server that cannot start leaves it running.
    if ((await controller.stop()).stopped) log.info(`replaced the controller of process ${former.pid ?? 'unknown'}`);
    io.stdout.write(`The server runs at ${server.url}. Stop it: Ctrl-C\n`);
    const isAdmins = ({ role, revokedAt, expiresAt }: TokenView): boolean =>
      role === 'admin' && revokedAt === null && expiresAt > io.now();
    if (!(await access.tokens(null)).some(isAdmins))
      io.stdout.write('No token with the role admin exists yet. Create one: jobman token create\n');
    return await controller.run({ idleExitMs: null, isServer: true, meter });
  } finally {
    await close();
    forget();
    await clients.close();
  }
}

/** Of the home, the settings and the credentials of this login. */
function privatePaths({ env, userHome }: Io, home: string, { data, secrets_key: key }: ServerSettings): string[] {
  const named = [data, key].filter((path) => path !== null && !path.includes('://'));
  const own = ['.kube', '.ssh', '.config'].map((name) => join(userHome, name));
  const kubeconfigs = (env['KUBECONFIG'] ?? '').split(delimiter).filter((path) => path !== '');
  return [home, ...own, ...kubeconfigs, ...named.map((path) => resolveSettingPath(path ?? '', { home, userHome }))];
}

type ServerClients = ReturnType<typeof createClients>;

interface ApiOptions {
  readonly io: Io;
  readonly clients: ServerClients;
  readonly meter: ReadableMeter;
  readonly log: ReturnType<typeof createLogger>;
}

/** The parts of the API that `jobman server` and `jobman dashboard` share. */
export function apiParts({ io, clients, meter, log }: ApiOptions) {
  return {
    clientOf: async (actor: Actor) => clientFor(async () => actor, await clients.parts()),
    async connectWorker(job: string, worker: number) {
      const { store, workerRoutes } = await clients.parts();
      return (await workerRoutes()).connect(await loadAllocation(store, job), worker);
    },
    labOf: async (actor: Actor) => clients.labOf(actor),
    clustersOf: async (actor: Actor) => clients.clustersOf(actor),
    ready: async () => (await clients.parts()).store.requireUsable(),
    onUncaught: (call: Parameters<Io['onUncaught']>[0]) => io.onUncaught(call),
    reportBug: (line: string) => log.error(line),
    reportOutage: (line: string) => log.warn(`cannot use the database: ${line}`),
    metrics: {
      meter,
      store: async () => (await clients.parts()).store,
      now: () => io.now(),
      version: io.version,
      resourceUsage: () => io.resourceUsage(),
    },
  };
}

/** The path of an address, without a slash at its end. */
function pathOf(url: string): string {
  return new URL(url, 'http://localhost').pathname.replace(/\/+$/, '');
}

/** The parts of clients, with the newest settings. While the files have a mistake, the previous settings apply. */
export function createClients(openServices: () => Services, home: string, warn: (line: string) => void) {
  let current = openServices();
  let opened = createClientParts(current);
  const { template, explicit } = current.settingsFiles();
  const files = [settingsFile(home), ...[template, explicit].flatMap((path) => path ?? [])];
  let seen = fingerprintOf(files);
  const shared: SharedClusters = new Map();
  let hasArchive = false;
  async function renew(): Promise<void> {
    const next = openServices();
    try {
      await next.settings();
      const old = opened;
      [current, opened] = [next, createClientParts(next)];
      await old.close();
    } catch (error) {
      warn(`the changed settings cannot be used, so the server keeps the previous ones: ${messageOf(error)}`);
    }
  }
  let renewal = Promise.resolve();
  let isChecked = false;
  async function newest() {
    // Once for all requests of one turn of the event loop.
    if (!isChecked) {
      isChecked = true;
      setImmediate(() => (isChecked = false));
      const now = fingerprintOf(files);
      if (now !== seen) renewal = renewal.then(renew);
      seen = now;
    }
    await renewal;
    return opened;
  }
  return {
    parts: async () => (await newest()).parts,
    async labOf(actor: Actor) {
      const { parts, labStore } = await newest();
      const notify = (...[wakeUp]: Parameters<typeof parts.store.notify>) => parts.store.notify(wakeUp);
      const lab = openLab(current, { store: labStore, notify, close: async () => undefined });
      return labClientFor(
        clientFor(async () => actor, parts),
        lab,
        parts,
      );
    },
    async clustersOf(actor: Actor) {
      const { parts } = await newest();
      const client = clientFor(async () => actor, parts);
      const namedSecret = async (name: string) => current.namedSecret(name, actor.user);
      const cluster = async (options: ClusterOptions) =>
        (await import('./cluster.ts')).openSharedCluster(current, options, shared);
      const clusterSubmissions = async () => {
        const submissions = await current.clusterSubmissions();
        // Includes the jobs of other servers of the database.
        hasArchive ||= submissions.isUsed || (await parts.clusters.jobs({}, { limit: 1 })).length > 0;
        return { ...submissions, isUsed: hasArchive };
      };
      const own = { client, namedSecret, cluster, clusterSubmissions };
      return clusterAccessFor(actor, { ...current, ...own }, parts);
    },
    settings: () => current.settings(),
    async close() {
      for (const cluster of shared.values()) await cluster.close();
      await opened.close();
    },
  };
}

/** A server without its key file serves everything else. */
function warnAboutSecrets(parts: Parameters<typeof secretKeys>[0], warn: (line: string) => void): void {
  try {
    if (secretKeys(parts)() === null && 'url' in databaseOf(parts))
      warn(
        'the secrets of users are files in the home, which a server with another home cannot read: jobman secret encrypt',
      );
  } catch (error) {
    warn(messageOf(error));
  }
}

interface Address extends ListenOptions {
  /** The address as the user gave it. */
  readonly text: string;
  readonly trustedProxies: readonly string[];
}

/** The address of the server; flags override settings. Throws JobmanError (2) for an unsafe or invalid address. */
function addressOf(options: ServerOptions, settings: ServerSettings, warn: (line: string) => void): Address {
  const { io, home } = options;
  const text = options.listen ?? settings.listen ?? defaultAddress;
  const { host, port } = parseAddress(text);
  const trustedProxies = options.trustedProxy ?? settings.trusted_proxies;
  const wrong = trustedProxies.find((one) => !isNetwork(one));
  if (wrong !== undefined)
    throw usageError(`--trusted-proxy takes an address or a network such as 10.0.0.0/24, and not ${wrong}.`);
  const fileOf = (flag: string | undefined, setting: string | null): string | null =>
    flag === undefined
      ? setting && resolveSettingPath(setting, { home, userHome: io.userHome })
      : resolve(io.cwd, flag);
  const certificate = fileOf(options.tlsCertificate, settings.tls.certificate);
  const key = fileOf(options.tlsKey, settings.tls.key);
  if ((certificate === null) !== (key === null))
    throw usageError(
      `TLS needs a certificate and its key, and only the ${key === null ? 'certificate' : 'key'} is given.`,
    );
  if (key === null && trustedProxies.length === 0 && !isLoopback(`http://${host}`))
    throw usageError(
      `To listen at ${host}, a server needs TLS, so that no token travels in clear text. Nothing was started.`,
      [
        `With a certificate: jobman server --listen ${text} --tls-certificate FILE --tls-key FILE`,
        `Behind a proxy that terminates TLS: jobman server --listen ${text} --trusted-proxy ADDRESS`,
        `For this machine only: jobman server --listen 127.0.0.1:${port}`,
      ],
    );
  const tls = key === null || certificate === null ? undefined : openTls({ certificate, key }, io, warn);
  return { text, host: host.replace(/^\[|\]$/g, ''), port, trustedProxies, tls };
}

/** Throws JobmanError (2). */
function parseAddress(text: string): { readonly host: string; readonly port: number } {
  const [, host = '127.0.0.1', digits = ''] = /^(?:(\[[\da-f:]+\]|[\w.-]+):)?(\d{1,5})$/i.exec(text) ?? [];
  const port = Number(digits);
  if (digits === '' || port > 65_535)
    throw usageError(`A server listens at an address such as ${defaultAddress}, and not at ${text}.`);
  return { host, port };
}

/** The certificate and key, read again when the files change. While the files are wrong, the previous ones apply. */
function openTls(files: TlsFiles, io: Pick<Io, 'now'>, warn: (line: string) => void): () => TlsIdentity {
  const fingerprint = () => fingerprintOf([files.certificate, files.key]);
  let seen = fingerprint();
  let inForce = readTls(files, io.now());
  return () => {
    const now = fingerprint();
    if (now === seen) return inForce;
    seen = now;
    try {
      inForce = readTls(files, io.now());
    } catch (error) {
      const problems = error instanceof JobmanError ? error.lines : [messageOf(error)];
      warn(`the changed certificate cannot be used, so the server keeps the previous one: ${problems.join('; ')}`);
    }
    return inForce;
  };
}
