// The controller as a process: the lock, the controller file, wake-ups, and the exit when no work is left. No change is
// missed. A client (1) commits, (2) sends a wake-up, (3) starts a controller if none holds the lock. An exiting
// controller (1) releases the lock, (2) receives once more, and continues if it has received a wake-up since it began to
// exit and the lock is still free. In every interleaving, one of the two sees the other.

import { randomUUID } from 'node:crypto';
import { rmSync, utimes } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { makeHome, writeAtomically } from '../files/files.ts';
import type { WakeUp, WakeUpListener } from '../app/ports.ts';
import { createController, type ControllerOptions, type ExitReason } from './controller.ts';
import { fileLease, sharedLease } from './lease.ts';
import {
  formatController,
  fileIdentity,
  formatProgram,
  heartbeatInterval,
  identityOfLock,
  takeLock,
  type ControllerFile,
} from './lock.ts';
import { createCoalescedTask } from './timers.ts';

export interface RunControllerOptions extends Omit<ControllerOptions, 'holdsLock' | 'holder' | 'leaseTimes'> {
  readonly home: string;
  /** Null for a database on a server. */
  readonly databaseFile: string | null;
  /** The name of the database for clients, without a password. */
  readonly database: string;
  readonly pid: number;
  readonly isServer: boolean;
  /** The database version that this program knows. */
  readonly schema: number;
  /** Registers a callback for a signal; the returned function removes it. */
  readonly onStop: (call: () => void) => () => void;
  /** Called once wake-ups are received, and again after each return to work. */
  readonly onStarted?: () => void;
  /** True once the settings of this controller have changed; called with each renewal and each wake. */
  readonly isOutdated?: () => Promise<boolean>;
}

/** `outdated`: the settings have changed, and the caller starts again with the new ones. */
type RunControllerResult = ExitReason | 'busy' | 'outdated';

/** Runs until nothing is left to watch, or the controller must leave. Throws for an unusable home. */
export async function runController(options: RunControllerOptions): Promise<RunControllerResult> {
  const { home, store } = options;
  makeHome(home);
  let result: RunControllerResult = 'busy';
  for (;;) {
    const unlock = takeLock(join(home, 'controller.lock'));
    // Another controller was first, or started while this one was exiting.
    if (unlock === undefined) return result;
    const run = createLockedRun(options);
    let listener: WakeUpListener | undefined;
    try {
      try {
        // A client that sees the lock would take the dead process of an old file for its holder.
        rmSync(controllerFile(home), { force: true, recursive: true });
        listener = await store.listen((wakeUps) => run.receive(wakeUps));
        result = await run.untilExit(listener);
      } finally {
        unlock();
      }
      // The controller of another home has the lease of a server now. This one waits for it again, as at its start.
      if (result === 'lease_lost' && options.databaseFile === null) continue;
      if (result !== 'idle') return result;
      await listener.poll();
    } finally {
      await listener?.close();
    }
    if (!run.hasMissedWork()) return result;
  }
}

function controllerFile(home: string): string {
  return join(home, 'controller.json');
}

/** One controller, for a caller that holds the lock. */
function createLockedRun(options: RunControllerOptions) {
  const { home, pid, version, schema, database, isServer, log } = options;
  const startedAt = options.clock.now();
  const file = controllerFile(home);
  // If the home was removed or the database replaced, this process works on files that no other process sees.
  const areFilesUnchanged = createIdentityCheck([join(home, 'controller.lock'), options.databaseFile ?? []].flat());
  let listener: WakeUpListener | undefined;
  /** A request to exit wins over new settings, so that a restart does not lose it. */
  let isExitRequested = false;
  let isOutdated = false;
  let hasMissedWork = false;

  const { trigger: check } = createCoalescedTask(async (): Promise<void> => {
    if (!areFilesUnchanged()) {
      log.warn('the database was removed or replaced, so this controller exits');
      void controller.stop();
      return;
    }
    await listener?.poll();
    if (isExitRequested || isOutdated || (await options.isOutdated?.()) !== true) return;
    log.info('the settings have changed: restarting with the new ones');
    isOutdated = true;
    void controller.stop();
  });
  const controller = createController({
    ...options,
    holder: `${pid}-${randomUUID().slice(0, 8)}${options.databaseFile === null ? `@${identityOfLock(home)}` : ''}`,
    holdsLock: true,
    leaseTimes: options.databaseFile === null ? sharedLease : fileLease,
    onRenewal() {
      check();
      options.onRenewal?.();
    },
  });

  function requestExit(): void {
    isExitRequested = true;
    void controller.stop();
  }

  function handle(wakeUp: WakeUp): void {
    if (wakeUp.topic === 'exit') {
      if (wakeUp.program === formatProgram(options)) return;
      if (options.databaseFile === null && wakeUp.controller !== formatController({ pid, startedAt })) return;
      log.info(wakeUp.program === null ? 'exit requested' : `exit requested by jobman ${wakeUp.program}`);
      requestExit();
    } else if (wakeUp.topic === 'job') hasMissedWork ||= !controller.wake(wakeUp.id);
    else if (wakeUp.topic === 'clusters') hasMissedWork ||= !controller.pollBackgroundTasks();
    else if (wakeUp.topic === 'all') hasMissedWork ||= !(controller.wake() && controller.pollBackgroundTasks());
  }

  return {
    receive(wakeUps: readonly WakeUp[]): void {
      // The first round gives every job a pass, and an old request to exit was for another controller.
      if (listener === undefined) return;
      wakeUps.forEach(handle);
      check();
    },

    /** True if a wake-up came after the controller had begun to exit, when its client may have seen the lock. */
    hasMissedWork: () => hasMissedWork,

    async untilExit(opened: WakeUpListener): Promise<ExitReason | 'outdated'> {
      await opened.poll();
      listener = opened;
      const removeStopListener = options.onStop(requestExit);
      // The clock's timers do not keep a process alive; this one does. A controller that waits for the lease or for its
      // database writes nothing there, so the time of its file shows that it does not hang.
      const alive = setInterval(() => {
        const now = new Date(options.clock.now());
        utimes(file, now, now, () => undefined);
      }, heartbeatInterval);
      try {
        const described: ControllerFile = { pid, version, schema, startedAt, database, isServer };
        writeAtomically(file, `${JSON.stringify(described)}\n`);
        controller.start();
        options.onStarted?.();
        const reason = await controller.exited;
        return reason === 'stopped' && isOutdated && !isExitRequested ? 'outdated' : reason;
      } finally {
        clearInterval(alive);
        removeStopListener();
        if (areFilesUnchanged()) await rm(file, { force: true });
      }
    },
  };
}

/** The returned function is false once one of these paths is gone or is another file; a failed check does not count. */
function createIdentityCheck(paths: readonly string[]): () => boolean {
  const files = paths.map((path) => ({ path, identity: fileIdentity(path) }));
  return () =>
    files.every(({ path, identity }) => {
      const now = fileIdentity(path);
      return identity === 'unknown' || identity === 'absent' || now === 'unknown' || now === identity;
    });
}
