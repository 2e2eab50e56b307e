// The controller as a process of this machine: runs, starts in the background, stops, and is installed as a service.

import { join } from 'node:path';
import { JobmanError, StoreError, exitCode } from '../app/errors.ts';
import type { HeldTpus } from '../app/held-tpus.ts';
import type { WakeUp } from '../app/ports.ts';
import type { ControllerService, ControllerStatus, Io } from '../app/services.ts';
import type { Settings } from '../app/settings.ts';
import { schemaVersion } from '../store/database.ts';
import type { DatabaseAddress } from '../store/open-database.ts';
import { otherDatabaseError } from '../app/database-url.ts';
import { otherDatabase } from './controller-database.ts';
import { databaseOf, hasDatabase } from './paths.ts';
import {
  formatController,
  formatProgram,
  identityOfLock,
  isControllerRunning,
  readController,
  silentSince,
  type ControllerFile,
  type ControllerProgram,
} from '../controller/lock.ts';

/** Time that a controller has to finish its passes after a request to leave. */
const exitTimeout = 30_000;

export interface ControllerParts {
  readonly io: Io;
  readonly home: string;
  readonly settings: () => Promise<Settings>;
  readonly freshSettings: () => Promise<Settings>;
  readonly settingsFiles: () => readonly string[];
}

/** Only `run` loads the controller's own code, and only `start` and `stop` load the code for processes. */
export function createControllerService(parts: ControllerParts): ControllerService {
  const { io, home } = parts;
  const log = join(home, 'controller.log');

  async function status(): Promise<ControllerStatus> {
    const [file, other] = [readController(home), await otherDatabase(parts)];
    return {
      running: file !== null || isControllerRunning(home),
      pid: file?.pid ?? null,
      version: file?.version ?? null,
      isServer: file?.isServer === true,
      isOutdated: file !== null && file.schema < schemaVersion,
      startedAt: file?.startedAt ?? null,
      otherDatabase: other,
      waitsFor: file === null || other !== null ? null : await leaderElsewhere(parts),
      silentSinceAt: file === null ? null : silentSince(home, io.now()),
      logFile: log,
    };
  }

  async function notify(wakeUp: WakeUp): Promise<void> {
    const { openStore, withStore } = await import('../store/store.ts');
    await withStore(openStore(databaseOf({ io, home })), (store) => store.notify(wakeUp));
  }

  async function requestControllerExit(program: string | null): Promise<void> {
    const running = readController(home);
    const { terminateProcess } = await import('./processes.ts');
    // It listens to the other one.
    if (running !== null && (await otherDatabase(parts)) !== null) return terminateProcess(running.pid);
    try {
      await notify({ topic: 'exit', program, ...(running !== null && { controller: formatController(running) }) });
    } catch (error) {
      if (!(error instanceof StoreError) || running === null) throw error;
      await terminateProcess(running.pid);
    }
  }

  async function stop(): Promise<{ readonly stopped: boolean }> {
    if (!isControllerRunning(home)) return { stopped: false };
    const { terminateProcess } = await import('./processes.ts');
    const pid = readController(home)?.pid;
    const isSilent = silentSince(home, io.now()) !== null;
    await requestControllerExit(null);
    if (!isSilent && (await hasExitedWithin(home, exitTimeout / 2, pid))) return { stopped: true };
    // A controller without file descriptors cannot read the request; a signal needs none.
    if (pid !== undefined) await terminateProcess(pid);
    if (await hasExitedWithin(home, exitTimeout / 2, pid)) return { stopped: true };
    if (pid !== undefined && silentSince(home, io.now()) !== null) {
      await terminateProcess(pid, 'KILL');
      if (await hasExitedWithin(home, exitTimeout / 2, pid)) return { stopped: true };
    }
    throw new JobmanError(
      `The controller (process ${pid ?? 'unknown'}) has not exited yet. Its log: ${log}`,
      exitCode.failed,
      pid === undefined ? [] : [`kill -KILL ${pid}    ends it; jobs keep running`],
    );
  }

  return {
    status,
    stop,

    held: () => readHeldTpus(databaseOf({ io, home })),

    async reload() {
      await notify({ topic: 'settings' });
    },

    async run(options) {
      await forgetWakeUps(parts);
      const { runInForeground } = await import('./controller-process.ts');
      return runInForeground({ ...parts, ...options });
    },

    async start() {
      const running = readController(home);
      const program: ControllerProgram = { version: io.version, schema: schemaVersion };
      const other = await otherDatabase(parts);
      if (running !== null && other !== null) throw otherDatabaseError(running.pid, other);
      // A controller that knows fewer tables commits without writing the others.
      if (running?.version === io.version && running.schema >= schemaVersion) {
        await forgetWakeUps(parts);
        return { started: false, pid: running.pid };
      }
      const { startInBackground } = await import('./processes.ts');
      if (running !== null) {
        await requestControllerExit(formatProgram(program));
        if (!(await hasExitedWithin(home, exitTimeout))) throw notExitedError(running, program, log);
      }
      // Wrong settings are reported here, with their own exit code.
      await parts.settings();
      const { pid } = await startInBackground({
        io,
        home,
        name: 'The controller',
        args: ['controller', 'run'],
        logFile: log,
        find: async () => readController(home) ?? undefined,
        timeoutMs: 15_000,
        failureCode: exitCode.failed,
      });
      return { started: true, pid };
    },

    async install() {
      const { installService } = await import('./install.ts');
      return installService({ io, home });
    },

    async uninstall() {
      const { uninstallService } = await import('./install.ts');
      return uninstallService({ io, home });
    },
  };
}

/** With `pid` also the end of its process: it releases the lock before it closes its files. */
async function hasExitedWithin(home: string, timeoutMs: number, pid?: number): Promise<boolean> {
  const { isProcessRunning, pollUntil } = await import('./processes.ts');
  const isOver = () => !isControllerRunning(home) && (pid === undefined || !isProcessRunning(pid));
  return (await pollUntil(async () => isOver() || undefined, timeoutMs)) === true;
}

function notExitedError(running: ControllerFile, program: ControllerProgram, log: string): JobmanError {
  return new JobmanError(
    `The controller of jobman ${formatProgram(running)} (process ${running.pid}) has not exited yet; this is jobman ${formatProgram(program)}.`,
    exitCode.failed,
    [`Try again later; jobs keep running. Its log: ${log}`],
  );
}

/** Those of a home whose database is on a server: a controller begins with all jobs. See `restartIfKilled`. */
async function forgetWakeUps(parts: ControllerParts): Promise<void> {
  if ('url' in databaseOf(parts)) (await import('../store/wake-folder.ts')).forget(parts.home);
}

/** An unusable database is reported by those that need it. */
async function leaderElsewhere({ io, home }: ControllerParts): Promise<string | null> {
  const database = databaseOf({ io, home });
  if ('file' in database) return null;
  const { withReadOnlyStore } = await import('../store/store.ts');
  const lease = await withReadOnlyStore(database, (store) => store.lease(io.now())).catch(() => undefined);
  if (lease === undefined || lease.expiresAt < io.now()) return null;
  // See `holder` in src/controller/process.ts.
  const [, lock = ''] = /@(.*)$/.exec(lease.holder) ?? [];
  return lock === identityOfLock(home) ? null : (lock.split(' ')[0] ?? null);
}

async function readHeldTpus(database: DatabaseAddress): Promise<HeldTpus | null> {
  if (!hasDatabase(database)) return null;
  const [{ heldTpus }, { openStore, withStore }] = await Promise.all([
    import('../app/held-tpus.ts'),
    import('../store/store.ts'),
  ]);
  // The controller has stopped already; other commands report an unusable database.
  try {
    return await withStore(openStore({ ...database, readOnly: true }), heldTpus);
  } catch {
    return null;
  }
}
