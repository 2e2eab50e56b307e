// The controller as a process of this machine: runs in the foreground, starts in the background, stops, and is
// installed as a service.

import { join } from 'node:path';
import { JobmanError, exitCode, fileError, fileErrorKind } from '../app/errors.ts';
import type { ControllerService, ControllerStatus, Io } from '../app/services.ts';
import type { Settings } from '../app/settings.ts';
import { isControllerRunning, readController } from '../controller/lock.ts';

const startTimeout = 15_000;
/** Time that a controller has to finish its passes after a request to leave. */
const leaveTimeout = 30_000;

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
    const file = readController(home);
    return {
      running: file !== null || isControllerRunning(home),
      pid: file?.pid ?? null,
      version: file?.version ?? null,
      startedAt: file?.startedAt ?? null,
      logFile: log,
    };
  }

  /** By a signal if the home cannot be written. */
  async function requestLeave(version: string | null): Promise<void> {
    const { requestExit } = await import('../controller/wake-folder.ts');
    try {
      await requestExit(home, version);
    } catch (error) {
      const pid = readController(home)?.pid;
      if (fileErrorKind(error) === undefined || pid === undefined) throw fileError(join(home, 'wake'), error);
      const { terminateProcess } = await import('./processes.ts');
      await terminateProcess(pid);
    }
  }

  async function stop(): Promise<{ readonly stopped: boolean }> {
    if (!isControllerRunning(home)) return { stopped: false };
    const { terminateProcess, pollUntil } = await import('./processes.ts');
    await requestLeave(null);
    const waitUntilLeft = () => pollUntil(async () => (isControllerRunning(home) ? undefined : true), leaveTimeout / 2);
    let left = await waitUntilLeft();
    const pid = readController(home)?.pid;
    if (left === undefined && pid !== undefined) {
      // A controller without file descriptors cannot read the request; a signal needs none.
      await terminateProcess(pid);
      left = await waitUntilLeft();
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
      const { sendWake } = await import('../controller/wake-folder.ts');
      await sendWake(home, 'settings');
    },

    async run(options) {
      const { runInForeground } = await import('./controller-process.ts');
      return runInForeground({ ...parts, ...options });
    },

    async start() {
      const running = readController(home);
      if (running !== null && running.version === io.version) return { started: false, pid: running.pid };
      const { startDetached, pollUntil } = await import('./processes.ts');
      if (running !== null) {
        await requestLeave(io.version);
        const left = await pollUntil(async () => (isControllerRunning(home) ? undefined : true), leaveTimeout);
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
      const { exitedForMs, lastOutput } = await startDetached({ io, home }, ['controller', 'run'], log);
      // Another client may have started a controller at the same time: then ours leaves, and this waits for the other
      // one.
      const hasFailed = (): boolean => exitedForMs() > 0 && !isControllerRunning(home);
      const started = await pollUntil(async () => readController(home) ?? undefined, startTimeout, hasFailed);
      if (started === undefined) {
        throw new JobmanError(
          hasFailed()
            ? `The controller ended as soon as it was started; its log is ${log}.`
            : `The controller was started and does not answer; its log is ${log}.`,
          exitCode.failed,
          lastOutput(),
        );
      }
      return { started: true, pid: started.pid };
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
