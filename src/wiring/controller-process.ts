// Builds one running controller.

import { hostsOf } from '../app/hosts.ts';
import { closeSync, openSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import type { Cluster } from '../app/cluster/cluster.ts';
import { writeProgramFile } from '../files/program-file.ts';
import { archivedLogPath, archiveFolder, openArchivedLog } from '../files/archived-logs.ts';
import type { WatchedContext } from '../app/cluster/objects.ts';
import { exitCode, JobmanError, StoreError, messageOf, mentionsDescriptorShortage } from '../app/errors.ts';
import { fileError } from '../app/file-errors.ts';
import { makeHome } from '../files/files.ts';
import { pluralize } from '../app/format.ts';
import type { Store, Clock } from '../app/ports.ts';
import type { ControllerService, Io } from '../app/services.ts';
import type { Settings } from '../app/settings.ts';
import { sanitizeText } from '../cli/output.ts';
import { createBlobCollector } from '../controller/blob-collector.ts';
import { createClusterMirror, type ClusterMirror } from '../controller/cluster-mirror.ts';
import type { BackgroundTask } from '../controller/controller.ts';
import { createDeliveries } from '../controller/deliveries.ts';
import { readController } from '../controller/lock.ts';
import { createNotifier } from '../controller/notifier.ts';
import { runController } from '../controller/process.ts';
import { second, type Duration, type Instant } from '../core/model/time.ts';
import type { BookingSheet } from '../lab/bookings.ts';
import type { LabStore } from '../lab/lab-store.ts';
import { siteOf } from '../lab/site.ts';
import { flavorPriceOf } from '../reports/prices.ts';
import { createBackups } from '../store/backup.ts';
import { schemaVersion } from '../store/database.ts';
import { requireOriginalHome } from '../store/open-database.ts';
import { openStore, type JobmanStore } from '../store/store.ts';
import { createBackends, createClock } from './backends.ts';
import { shareConnections } from './worker-access.ts';
import { databaseName } from './controller-database.ts';
import type { BucketData } from './bucket-data.ts';
import { openData, type Data } from './data.ts';
import type { ControllerParts } from './controller-service.ts';
import { openSheet } from './sheet.ts';
import { finalRows } from './final-rows.ts';
import { createMessageSender } from './notify.ts';
import { databaseOf, namedSettings, templateFile } from './paths.ts';

type RunParts = ControllerParts & Parameters<ControllerService['run']>[0];

/** Runs until a signal, an exit request, or an idle exit. When the settings change it restarts in the same process. */
export async function runInForeground(parts: RunParts): Promise<number> {
  for (;;) {
    const ended = await runOnce(parts, await readSettings(parts));
    if (ended !== 'outdated') return ended;
  }
}

async function runOnce(
  parts: RunParts,
  { settings, createOutdatedCheck }: SettingsOfRun,
): Promise<number | 'outdated'> {
  const { io, home } = parts;
  checkOpenFileLimit();
  const database = databaseOf(parts);
  const store = openStore({ ...database, finalRows });
  // On a server the lease waits for no other statement, and gives up a connection that is cut before the lease expires.
  const leases = 'url' in database ? openStore({ ...database, answerTimeoutMs: 3 * second }) : store;
  const { clock, adjustClock } = createDatabaseClock(() => io.now(), leases);
  await expectUsableStore(store);
  // In a copied home every write would be refused.
  await requireOriginalHome(database);
  const data = await openData({ io, home, settings });
  makeHome(home);
  data.prepare();
  const logFiles = data.openLogFiles((id, after) => store.events(id, after));
  const logger = createLogger(io);
  // A server has its own backups.
  const backUpIfDue = 'file' in database && createBackups(database.file, clock, (line) => logger.warn(line));
  const collectBlobsIfDue = createBlobCollector({
    store,
    blobs: data.blobs,
    access: store.access,
    clock,
    log: { info: (line) => logger.info(line), warn: (line) => logger.warn(line) },
  });
  const stopSending = data.bucket && keepSending(data.bucket, home, logger);
  let stopSharing: Promise<() => Promise<void>> | undefined;
  /** These run with the renewal of the lease, so that an idle controller has one timer only. */
  const periodicChecks = new Set<() => void>();
  const addPeriodicCheck = (call: () => void) => {
    periodicChecks.add(call);
    return () => periodicChecks.delete(call);
  };
  const backends = createBackends({ io, home, settings, clock, logFiles, blobs: data.blobs, addPeriodicCheck });
  try {
    const outcome = await runController({
      home,
      databaseFile: 'file' in database ? database.file : null,
      database: await databaseName(database),
      store: {
        ...store,
        takeLease: (...wanted) => leases.takeLease(...wanted),
        releaseLease: (holder) => leases.releaseLease(holder),
        lease: (now) => leases.lease(now),
      },
      clock,
      adjustClock,
      ...('url' in database && { monotonicNow: () => performance.now() }),
      logFiles,
      backendOf: backends.of,
      log: { info: (line) => logger.info(line), warn: (line) => logger.warn(line) },
      version: io.version,
      schema: schemaVersion,
      pools: hostsOf(settings),
      grants: settings.grants,
      dailyBudgets: () => store.access.dailyBudgets(),
      keptPasses: settings.passes,
      idleExitMs: parts.idleExitMs === undefined ? settings.controller.idleExitMs : parts.idleExitMs,
      pid: io.pid,
      isServer: parts.isServer === true,
      onStop: (call) => io.onSignal(call),
      createBackgroundTasks: () => [
        openClusterMirror({ ...parts, data }, settings, store, clock, (line) => logger.info(line)),
        createNotifier({
          store: store.notifications,
          settings: settings.notify,
          send: createMessageSender({ io, home, settings: settings.notify }),
          clock,
          report: (line) => logger.info(line),
        }),
        ...createSheetDeliveries(parts, settings, store.lab, clock, (line) => logger.info(line)),
      ],
      meter: parts.meter,
      isOutdated: createOutdatedCheck((line) => logger.warn(line)),
      isOutOfDescriptors: cannotOpenFiles,
      onRenewal() {
        if (backUpIfDue !== false) void backUpIfDue();
        void collectBlobsIfDue();
        periodicChecks.forEach((call) => call());
      },
      onStarted: () => {
        try {
          writeProgramFile(home, io.launcher);
        } catch (error) {
          logger.warn(`cannot name this program to the scripts of jobs: ${messageOf(error)}`);
        }
        // The socket belongs to the holder of the lock. Commands also work without it.
        stopSharing ??= shareConnections({ home, version: io.version, store, workers: backends.workers }).catch(
          (error: unknown) => {
            logger.warn(`cannot share connections with commands: ${messageOf(error)}`);
            return () => Promise.resolve();
          },
        );
      },
    });
    if (outcome === 'busy') throw runningElsewhere(home);
    if (outcome === 'outdated') return outcome;
    logger.info(`exited: ${outcome}`);
    return exitCode.ok;
  } catch (error) {
    throw fileError(join(home, 'controller.json'), error);
  } finally {
    await (
      await stopSharing
    )?.();
    backends.close();
    await stopSending?.();
    await store.close();
    await leases.close();
  }
}

/** Sends the logs of jobs to the bucket. The returned function sends the last bytes. */
function keepSending({ logs }: BucketData, home: string, log: ReturnType<typeof createLogger>): () => Promise<void> {
  let reported: string | null = null;
  let sending: Promise<void> | undefined;
  async function send(): Promise<void> {
    const problem = await logs.sendWaiting();
    if (problem !== null && reported === null)
      log.warn(`the logs of ${pluralize(logs.waiting(), 'job')} wait in ${home}: ${problem}`);
    if (problem === null && reported !== null) log.info('the logs that waited were sent');
    reported = problem;
    sending = undefined;
  }
  const timer = setInterval(() => void (sending ??= send()), 3 * second);
  timer.unref();
  return async () => {
    clearInterval(timer);
    await sending;
    // A bucket that does not answer must not delay the exit: the next process sends the rest.
    if (reported === null) await send();
  };
}

/** Smaller differences need no correction: it could not be more exact than the time that a request takes. */
const clockTolerance = 2 * second;

/**
 * The clock of a database on a server, which all controllers use. With its own clock, a controller that takes over could end
 * a program too early.
 */
function createDatabaseClock(now: () => Instant, store: Pick<Store, 'clock'>) {
  let ahead: Duration = 0;
  return {
    clock: createClock(() => now() + ahead),
    adjustClock: async (): Promise<void> => {
      const asked = now();
      const time = await store.clock();
      const answered = now();
      if (time === null) return;
      const difference = Math.round(time - (asked + answered) / 2);
      if (Math.abs(difference - ahead) > clockTolerance + answered - asked) ahead = difference;
    },
  };
}

export function runningElsewhere(home: string): JobmanError {
  const other = readController(home);
  const which = other === null ? '' : `: process ${other.pid}, version ${other.version}`;
  const what = other?.isServer === true ? 'server' : 'controller';
  return new JobmanError(`A ${what} of ${home} is already running${which}.`, exitCode.conflict, [
    'To run it here instead: jobman controller stop',
  ]);
}

/** Lines of JSON on standard error. */
export function createLogger(io: Pick<Io, 'stderr'>) {
  return pino(
    { base: null, timestamp: pino.stdTimeFunctions.isoTime },
    { write: (line) => io.stderr.write(sanitizeText(line)) },
  );
}

const controllerSettings = (settings: Settings): string => {
  const { database, tpu, local, hosts, controller, passes, notify, grants, prices, lab, server } = settings;
  const { secrets_key, data } = server;
  return JSON.stringify({
    database,
    tpu,
    local,
    hosts,
    controller,
    passes,
    notify,
    grants,
    prices,
    lab,
    secrets_key,
    data,
  });
};

interface SettingsOfRun {
  readonly settings: Settings;
  /** True once the files have other settings for a controller. Settings with a mistake change nothing. */
  readonly createOutdatedCheck: (warn: (line: string) => void) => () => Promise<boolean>;
}

/** A check also finds a change between the read and its creation, because a start takes a while. */
export async function readSettings(parts: Pick<RunParts, 'settingsFiles' | 'freshSettings'>): Promise<SettingsOfRun> {
  let fingerprint = fingerprintOf(parts.settingsFiles());
  const settings = await parts.freshSettings();
  const used = controllerSettings(settings);
  return {
    settings,
    createOutdatedCheck: (warn) => async () => {
      const now = fingerprintOf(parts.settingsFiles());
      if (now === fingerprint) return false;
      fingerprint = now;
      try {
        return controllerSettings(await parts.freshSettings()) !== used;
      } catch (error) {
        const { mistakesOf } = await import('../app/settings.ts');
        warn(
          `the changed settings cannot be used, so the controller keeps the previous ones: ${mistakesOf(error).join('; ')}`,
        );
        return false;
      }
    },
  };
}

/** Changes when one of the files does. */
export function fingerprintOf(paths: readonly string[]): string {
  return paths
    .map((path) => {
      try {
        const { ino, size, mtimeMs } = statSync(path);
        return `${ino} ${size} ${mtimeMs}`;
      } catch {
        return 'none';
      }
    })
    .join(', ');
}

/** Throws for a database that can never be used. For a full disk or a busy file the controller waits. */
async function expectUsableStore(store: Store): Promise<void> {
  try {
    await store.changeCount();
  } catch (error) {
    if (error instanceof StoreError && ['corrupt', 'newer', 'unsupported'].includes(error.kind)) {
      await store.close();
      throw error;
    }
  }
}

function cannotOpenFiles(): boolean {
  try {
    closeSync(openSync('/dev/null', 'r'));
    return false;
  } catch (error) {
    return error instanceof Error && mentionsDescriptorShortage(error.message);
  }
}

/** The controller's own files, and a few for each job: connections, logs, pipes of programs. */
const minOpenFiles = 256;

/** With fewer open files the controller would read "too many open files" as silence of every worker. */
function checkOpenFileLimit(): void {
  let limits: string;
  try {
    limits = readFileSync('/proc/self/limits', 'utf8');
  } catch {
    return;
  }
  const most = Number(/^Max open files +(\d+)/mu.exec(limits)?.[1] ?? Number.POSITIVE_INFINITY);
  if (most >= minOpenFiles) return;
  throw new JobmanError(
    `The controller needs ${minOpenFiles} open files at once, but the limit is ${most}. It was not started.`,
    exitCode.failed,
    [`Raise the limit (ulimit -n ${minOpenFiles}), then: jobman controller start`],
  );
}

/** Writes the bookings of a lab to its spreadsheet. Nothing if it has none. */
function createSheetDeliveries(
  { io, home }: Pick<ControllerParts, 'io' | 'home'>,
  { lab }: Settings,
  store: LabStore,
  clock: Clock,
  report: (line: string) => void,
): readonly BackgroundTask[] {
  const site = siteOf(lab, { home, userHome: io.userHome });
  if (site.spreadsheet === null) return [];
  let sheet: Promise<BookingSheet> | undefined;
  let reported = '';
  async function deliver(): Promise<Instant | null> {
    // Most labs have nothing to deliver most of the time, and Google's library is large.
    if ((await store.sheetChanges()).every(({ nextAt }) => nextAt === null)) return null;
    const { late, nextAt } = await (
      await (sheet ??= openSheet(site, { store, home, now: () => clock.now() }))
    ).deliver();
    const text = late.map(({ message }) => message).join(' ');
    if (text !== '' && text !== reported) report(text);
    reported = text;
    return nextAt;
  }
  return [createDeliveries({ deliver, clock, report })];
}

/** Reads and watches nothing before its first `poll`. */
function openClusterMirror(
  { io, home, data }: Pick<ControllerParts, 'io' | 'home'> & { readonly data: Data },
  { prices }: Settings,
  store: JobmanStore,
  clock: Clock,
  log: (line: string) => void,
): ClusterMirror {
  const clusters = store.clusters;
  let keepsLogsOnce: Promise<boolean> | undefined;

  return createClusterMirror({
    store: {
      ...clusters,
      async contexts() {
        const contexts = await clusters.contexts();
        if (contexts.length === 0) return contexts;
        keepsLogsOnce ??= keepsLogs();
        return (await keepsLogsOnce) ? contexts : [];
      },
    },
    installation: () => store.installationId(),
    open,
    openLogCopy: (job, pod, container) =>
      data.openArchivedLog(job, () => openArchivedLog(archivedLogPath(archiveFolder(home, job), pod, container))),
    clock,
    flavorPrice: ({ flavor, createdAt }) => flavorPriceOf(prices, flavor, createdAt),
    report: log,
  });

  /** Commands report wrong settings; here they must not stop the archive. */
  async function keepsLogs(): Promise<boolean> {
    const [{ loadClusterSettings }, { settingsLayers }] = await Promise.all([
      import('../app/cluster/settings.ts'),
      import('../files/settings-files.ts'),
    ]);
    try {
      const template = templateFile(io.launcher.at(-1) ?? '');
      const layers = await settingsLayers({ home, explicit: namedSettings(io), template });
      return (await loadClusterSettings({ layers, userHome: io.userHome })).settings.kubernetes.keepLogs;
    } catch (error) {
      log(`cannot read the cluster settings: ${messageOf(error)}`);
      return true;
    }
  }

  async function open({ setting, kubeconfig, context, namespace, flavorAnnotation }: WatchedContext): Promise<Cluster> {
    const [{ readKubeContext }, { createCluster }] = await Promise.all([
      import('../backends/kubernetes/kubeconfig.ts'),
      import('../backends/kubernetes/cluster.ts'),
    ]);
    const env = { ...io.env, KUBECONFIG: kubeconfig ?? undefined };
    const source = { setting, env, userHome: io.userHome, cwd: io.cwd };
    const found = await readKubeContext(source, setting.type === 'cluster' ? { namespace } : { context, namespace });
    return createCluster({ context: found, flavorKey: flavorAnnotation, env, now: () => io.now() });
  }
}
