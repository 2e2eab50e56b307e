// The controller as a process of this machine: run here, started in the background, asked to leave, installed for good.

import { join } from 'node:path';
import { JobmanError, exitCode, fileError, fileTrouble } from '../app/errors.ts';
import type { ControllerService, ControllerStatus, Io } from '../app/services.ts';
import type { Settings } from '../app/settings.ts';
import { isControllerRunning, readController } from '../controller/lock.ts';

/** How long a controller that was just started may take to answer before we say that it does not. */
const startMost = 15_000;
/** How long one may take to finish its passes after it was asked to leave. */
const leaveMost = 30_000;

export interface ControllerParts {
  readonly io: Io;
  readonly home: string;
  readonly settings: () => Promise<Settings>;
  /** The settings as the files have them now. */
  readonly freshSettings: () => Promise<Settings>;
  /** The files that they are read from. */
  readonly settingsFiles: () => readonly string[];
}

/** See ControllerService. The controller's own code is loaded by `run` alone, and what starts programs by `start`. */
export function createControllerService(parts: ControllerParts): ControllerService {
  const { io, home } = parts;
  const log = join(home, 'controller.log');

  async function status(): Promise<ControllerStatus> {
    const file = readController(home);
    return {
      running: file !== null || isControllerRunning(home),
      pid: file?.pid ?? null,
      version: file?.version ?? null,
      startedAt: file?.startedAt ?? null,
      log,
    };
  }

  /** Asks the running controller to leave; by a signal where the home cannot be written. */
  async function ask(version: string | null): Promise<void> {
    const { askToLeave } = await import('../controller/wake-folder.ts');
    try {
      await askToLeave(home, version);
    } catch (error) {
      const pid = readController(home)?.pid;
      if (fileTrouble(error) === undefined || pid === undefined) throw fileError(join(home, 'wake'), error);
      const { endProcess } = await import('./processes.ts');
      await endProcess(pid);
    }
  }

  async function stop(): Promise<{ readonly stopped: boolean }> {
    if (!isControllerRunning(home)) return { stopped: false };
    const { endProcess, waitFor } = await import('./processes.ts');
    await ask(null);
    const hasLeft = () => waitFor(async () => (isControllerRunning(home) ? undefined : true), leaveMost / 2);
    let left = await hasLeft();
    const pid = readController(home)?.pid;
    if (left === undefined && pid !== undefined) {
      // One that has no file descriptor left cannot read the request; a signal needs none.
      await endProcess(pid);
      left = await hasLeft();
    }
    if (left === undefined) {
      throw new JobmanError(
        `The controller (pid ${pid ?? 'unknown'}) was asked to leave and is still finishing its passes; its log is ${log}.`,
        exitCode.failed,
      );
    }
    return { stopped: true };
  }

  return {
    status,
    stop,

    async reload() {
      const { dropWake } = await import('../controller/wake-folder.ts');
      await dropWake(home, 'settings');
    },

    async run(options) {
      const { runInForeground } = await import('./controller-process.ts');
      return runInForeground({ ...parts, ...options });
    },

    async start() {
      const running = readController(home);
      if (running !== null && running.version === io.version) return { started: false, pid: running.pid };
      const { startDetached, waitFor } = await import('./processes.ts');
      if (running !== null) {
        await ask(io.version);
        const left = await waitFor(async () => (isControllerRunning(home) ? undefined : true), leaveMost);
        if (left === undefined) {
          throw new JobmanError(
            `A controller of jobman ${running.version} (process ${running.pid}) was asked to leave and is still finishing its passes; this is jobman ${io.version}.`,
            exitCode.failed,
            [`Try again in a moment. Its log is ${log}; jobs go on meanwhile.`],
          );
        }
      }
      // Wrong settings are reported here, with their own exit code.
      await parts.settings();
      const { endedFor, lastWords } = await startDetached({ io, home }, ['controller', 'run'], log);
      // Another client may have started one at the same time: then ours leaves, and that one is waited for.
      const hasFailed = (): boolean => endedFor() > 0 && !isControllerRunning(home);
      const begun = await waitFor(async () => readController(home) ?? undefined, startMost, hasFailed);
      if (begun === undefined) {
        throw new JobmanError(
          hasFailed()
            ? `The controller ended as soon as it was started; its log is ${log}.`
            : `The controller was started and does not answer; its log is ${log}.`,
          exitCode.failed,
          lastWords(),
        );
      }
      return { started: true, pid: begun.pid };
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
