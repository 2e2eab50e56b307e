// Everything that one running controller is made of.

import { closeSync, openSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import type { Cluster } from '../app/cluster/cluster.ts';
import { keptFile, keptFolder, openKept } from '../app/cluster/kept-logs.ts';
import type { KeptPlace } from '../app/cluster/kept.ts';
import { exitCode, JobmanError, StoreError, textOf, fileError, namesFileShortage } from '../app/errors.ts';
import { createLogFiles } from '../app/log-files.ts';
import type { Store, Clock } from '../app/ports.ts';
import type { Io } from '../app/services.ts';
import type { Settings } from '../app/settings.ts';
import { harmlessText } from '../cli/output.ts';
import { createClusterMirror, type ClusterMirror } from '../controller/cluster-mirror.ts';
import { readController } from '../controller/lock.ts';
import { runController } from '../controller/process.ts';
import { keepCopies } from '../store/backup.ts';
import { expectOriginal } from '../store/record-file.ts';
import { openStore, type RecordStore } from '../store/store.ts';
import { createBackends, createClock } from './backends.ts';
import { lendConnections } from './by-hand.ts';
import type { ControllerParts } from './controller-service.ts';
import { recordFile, templateFile } from './paths.ts';

type RunParts = ControllerParts & { readonly idleExitMs?: number | null };

/**
 * Runs it in this process until a signal, a request to leave, or until nothing is left to watch; resolves with the exit code.
 * When the settings change it starts over with the new ones, in the same process: programs on workers run on meanwhile.
 */
export async function runInForeground(parts: RunParts): Promise<number> {
  for (;;) {
    const ended = await runOnce(parts, await parts.freshSettings());
    if (ended !== 'outdated') return ended;
  }
}

async function runOnce(parts: RunParts, settings: Settings): Promise<number | 'outdated'> {
  const { io, home } = parts;
  expectOpenFiles();
  const store = openStore({ file: recordFile(home) });
  const clock = createClock(() => io.now());
  await expectUsable(store);
  // In a copied home every write would be refused, and clients would wait for the controller.
  await expectOriginal(recordFile(home));
  const logFiles = createLogFiles({ home, history: (id, after) => store.events(id, after) });
  const logger = pino(
    { base: null, timestamp: pino.stdTimeFunctions.isoTime },
    { write: (line) => io.stderr.write(harmlessText(line)) },
  );
  const copies = keepCopies({ file: recordFile(home), clock, warn: (line) => logger.warn(line) });
  let endLending: Promise<() => Promise<void>> | undefined;
  let wakeJob: (id: string) => void = () => undefined;
  /** Periodic checks run with the renewal of the lease, so that at rest one timer wakes all. */
  const lookingAround = new Set<() => void>();
  const rounds = (call: () => void) => {
    lookingAround.add(call);
    return () => lookingAround.delete(call);
  };
  const backends = createBackends({ io, home, settings, clock, logFiles, rounds, changed: (id) => wakeJob(id) });
  try {
    const because = await runController({
      home,
      record: recordFile(home),
      store,
      clock,
      logFiles,
      backendOf: backends.of,
      log: { info: (line) => logger.info(line), warn: (line) => logger.warn(line) },
      version: io.version,
      slots: settings.local.slots,
      idleExitMs: parts.idleExitMs === undefined ? settings.controller.idleExitMs : parts.idleExitMs,
      pid: io.pid,
      onStop: (call) => io.onSignal(call),
      beside: () => openClusterMirror({ io, home, store, clock, say: (line) => logger.info(line) }),
      isOutdated: outdatedBy(settings, parts, (line) => logger.warn(line)),
      cannotOpenFiles,
      onRenewal: () => lookingAround.forEach((call) => call()),
      onBegun: (controller) => {
        wakeJob = (id) => controller.wake(id);
        copies.begin();
        // Only now the lock is ours, and with it the socket's name. Commands can do without it.
        endLending ??= lendConnections({ home, version: io.version, store, workers: backends.workers }).catch(
          (error: unknown) => {
            logger.warn(`connections are not lent to commands: ${textOf(error)}`);
            return () => Promise.resolve();
          },
        );
      },
    });
    if (because === 'busy') {
      const other = readController(home);
      const which = other === null ? '' : `: process ${other.pid}, version ${other.version}`;
      throw new JobmanError(`A controller of ${home} runs already${which}. There is one at most.`, exitCode.conflict, [
        'To run it here instead: jobman controller stop',
      ]);
    }
    if (because === 'outdated') return because;
    logger.info(`left: ${because}`);
    return exitCode.ok;
  } catch (error) {
    throw fileError(join(home, 'controller.json'), error);
  } finally {
    copies.end();
    await (
      await endLending
    )?.();
    backends.close();
    await store.close();
  }
}

/** The settings that a controller is built from; each command reads the others. */
const settingsOf = ({ tpu, local, controller }: Settings): string => JSON.stringify({ tpu, local, controller });

/** True once the settings in the files differ from these. A file with a mistake changes nothing, and is logged once. */
function outdatedBy(inUse: Settings, parts: RunParts, warn: (line: string) => void): () => Promise<boolean> {
  const used = settingsOf(inUse);
  let stamp = stampOf(parts.settingsFiles());
  return async () => {
    const now = stampOf(parts.settingsFiles());
    if (now === stamp) return false;
    stamp = now;
    try {
      return settingsOf(await parts.freshSettings()) !== used;
    } catch (error) {
      if (!(error instanceof JobmanError)) throw error;
      warn(`the settings have changed and cannot be used; the former ones stay in force: ${error.message}`);
      return false;
    }
  };
}

function stampOf(paths: readonly string[]): string {
  return paths
    .map((path) => {
      const file = statSync(path, { throwIfNoEntry: false });
      return file === undefined ? 'none' : `${file.ino} ${file.size} ${file.mtimeMs}`;
    })
    .join(', ');
}

/** Throws for a record that can never be used. For a full disk or a busy file the controller waits. */
async function expectUsable(store: Store): Promise<void> {
  try {
    await store.changes();
  } catch (error) {
    if (error instanceof StoreError && (error.trouble === 'corrupt' || error.trouble === 'newer')) {
      await store.close();
      throw error;
    }
  }
}

/** True while this process, or the machine, has no file descriptor left. */
function cannotOpenFiles(): boolean {
  try {
    closeSync(openSync('/dev/null', 'r'));
    return false;
  } catch (error) {
    return error instanceof Error && namesFileShortage(error.message);
  }
}

/** Files that the controller itself has open, and some for each job: connections, logs, pipes of programs. */
const openFilesLeast = 256;

/**
 * Throws JobmanError where this process may open too few files at once: it would read "too many open files" as silence of every worker,
 * and give the jobs up. Node has already raised the limit as far as it may.
 */
function expectOpenFiles(): void {
  let limits: string;
  try {
    limits = readFileSync('/proc/self/limits', 'utf8');
  } catch {
    // Not Linux.
    return;
  }
  const most = Number(/^Max open files +(\d+)/mu.exec(limits)?.[1] ?? Number.POSITIVE_INFINITY);
  if (most >= openFilesLeast) return;
  throw new JobmanError(
    `The controller may open ${most} files at once, and needs ${openFilesLeast}. It was not started.`,
    exitCode.failed,
    [`Raise the limit (ulimit -n ${openFilesLeast}), then: jobman controller start`],
  );
}

interface MirrorParts {
  readonly io: Io;
  readonly home: string;
  readonly store: RecordStore;
  readonly clock: Clock;
  readonly say: (line: string) => void;
}

/** Begins with its first look. */
function openClusterMirror({ io, home, store, clock, say }: MirrorParts): ClusterMirror {
  const record = store.clusters;
  let keeps: Promise<boolean> | undefined;

  return createClusterMirror({
    record: {
      ...record,
      async places() {
        const places = await record.places();
        if (places.length === 0) return places;
        keeps ??= keepsLogs();
        return (await keeps) ? places : [];
      },
    },
    installation: () => store.installation(),
    open,
    copyOf: (job, pod, container) => openKept(keptFile(keptFolder(home, job), pod, container)),
    clock,
    say,
  });

  /** Settings that are wrong are the matter of the commands: what was wanted when it was submitted goes on. */
  async function keepsLogs(): Promise<boolean> {
    const { loadClusterSettings } = await import('../app/cluster/settings.ts');
    try {
      const template = templateFile(io.launcher.at(-1) ?? '');
      return (await loadClusterSettings({ home, template, userHome: io.userHome })).settings.kubernetes.keepLogs;
    } catch (error) {
      say(`settings of clusters cannot be read: ${textOf(error)}`);
      return true;
    }
  }

  async function open({ setting, kubeconfig, context, namespace, flavorKey }: KeptPlace): Promise<Cluster> {
    const [{ readKubeContext }, { createCluster }] = await Promise.all([
      import('../backends/kubernetes/kubeconfig.ts'),
      import('../backends/kubernetes/cluster.ts'),
    ]);
    const env = { ...io.env, KUBECONFIG: kubeconfig ?? undefined };
    const way = { setting, env, userHome: io.userHome, cwd: io.cwd };
    const found = await readKubeContext(way, setting.type === 'cluster' ? { namespace } : { context, namespace });
    return createCluster({ context: found, flavorKey, env, now: () => io.now() });
  }
}
