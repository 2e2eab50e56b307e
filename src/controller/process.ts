// The controller as a process: the lock, the file that says who runs, the wake folder, and leaving when nothing is left.
//
// No change is missed. A client that changed something (1) commits, (2) drops wake/<id>, (3) starts a controller if none holds the
// lock. A controller that leaves (1) releases the lock, (2) reads wake/ once more, and goes back to work if something is there and the
// lock is still free. Whichever way the two interleave, one of them sees the other.

import { randomUUID } from 'node:crypto';
import { rmSync, statSync } from 'node:fs';
import { rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileModeIn, makeHome } from '../app/files.ts';
import { createController, type Controller, type ControllerOptions, type LeftBecause } from './controller.ts';
import { takeLock, type ControllerFile } from './lock.ts';
import { oneAtATime } from './timers.ts';
import { takeWakes, watchWakes } from './wake-folder.ts';

export interface RunControllerOptions extends Omit<ControllerOptions, 'certain' | 'holder'> {
  /** `$JOBMAN_HOME`, absolute. */
  readonly home: string;
  /** The file of the record that `store` has open. */
  readonly record: string;
  /** Of this process, for people and for `controller stop`. */
  readonly pid: number;
  /** Calls back when the process is asked to end (a signal); the returned function takes that off again. */
  readonly onStop: (call: () => void) => () => void;
  /** Called once the lock and the file that says so are there, and looks have begun; again when it went back to work. */
  readonly onBegun?: (controller: Controller) => void;
  /** True once the settings that this controller was built from are no longer in force; asked with each renewal and each wake. */
  readonly isOutdated?: () => Promise<boolean>;
}

/** `outdated`: the settings have changed, and the caller starts over with the new ones. */
type RunEnded = LeftBecause | 'busy' | 'outdated';

/** Runs until nothing is left to watch, or it must leave; `busy`: another process holds the lock. Throws for an unusable home. */
export async function runController(options: RunControllerOptions): Promise<RunEnded> {
  const { home } = options;
  makeHome(home);
  let because: RunEnded = 'busy';
  for (;;) {
    const unlock = takeLock(join(home, 'controller.lock'));
    // Another one runs. It was there first, or it came while this one was leaving.
    if (unlock === undefined) return because;
    try {
      // The file of a killed controller names a process that is gone. A client that sees the lock would read it as its holder.
      rmSync(runsFile(home), { force: true, recursive: true });
      because = await runLocked(options);
    } finally {
      unlock();
    }
    if (because !== 'idle') return because;
    const { ids, clusters } = await takeWakes(home);
    if (ids.length === 0 && !clusters) return because;
  }
}

/** The file that says who runs. */
function runsFile(home: string): string {
  return join(home, 'controller.json');
}

async function runLocked(options: RunControllerOptions): Promise<LeftBecause | 'outdated'> {
  const { home, pid, version } = options;
  const startedAt = options.clock.now();
  const file = runsFile(home);
  // When the home is removed or the record replaced, this process has files open that no other process sees, while whatever it
  // writes by name would go among the new ones.
  const isStillOurs = rememberFiles([join(home, 'controller.lock'), options.record]);
  /** A request to leave wins over new settings: it must not be lost in a restart. */
  let isAskedToLeave = false;
  let isOutdated = false;
  // Taking a file out of the wake folder is a notice as well, so a thousand jobs that come together are read once.
  const { again: heed } = oneAtATime(async (): Promise<void> => {
    if (!isStillOurs()) {
      options.log.warn('the record of jobs was taken away or replaced while it was in use: this controller leaves');
      void controller.stop();
      return;
    }
    const { ids, leave, clusters } = await takeWakes(home);
    for (const id of ids) controller.wake(id);
    if (clusters) controller.lookBeside();
    if (leave !== undefined && leave !== version) {
      options.log.info(leave === '' ? 'asked to leave' : `asked to leave by jobman ${leave}`);
      isAskedToLeave = true;
      void controller.stop();
    } else if (!isOutdated && (await options.isOutdated?.()) === true) {
      options.log.info('the settings have changed: starting over with the new ones');
      isOutdated = true;
      void controller.stop();
    }
  });
  const controller = createController({
    ...options,
    holder: `${pid}-${randomUUID().slice(0, 8)}`,
    certain: true,
    onRenewal() {
      heed();
      options.onRenewal?.();
    },
  });
  // The first round gives every job a pass, and an old request to leave was for another controller.
  await takeWakes(home);
  const unwatch = await watchWakes(home, heed);
  const unhear = options.onStop(() => {
    isAskedToLeave = true;
    void controller.stop();
  });
  // Timers of the clock do not keep a process alive; this one never fires and does.
  const alive = setInterval(() => undefined, 2 ** 31 - 1);
  try {
    await writeWhole(file, `${JSON.stringify({ pid, version, startedAt } satisfies ControllerFile)}\n`);
    controller.start();
    options.onBegun?.(controller);
    const because = await controller.left;
    return because === 'stopped' && isOutdated && !isAskedToLeave ? 'outdated' : because;
  } finally {
    clearInterval(alive);
    unhear();
    unwatch();
    if (isStillOurs()) await rm(file, { force: true });
  }
}

/** Readers see the old text or the new one, never a part. */
async function writeWhole(path: string, text: string): Promise<void> {
  await writeFile(`${path}.new`, text, { mode: fileModeIn(dirname(path)) });
  await rename(`${path}.new`, path);
}

// Files that are held open while somebody removes or replaces them by name.

/** The returned question answers false once one of these names is gone or is another file; a failed check says nothing. */
function rememberFiles(paths: readonly string[]): () => boolean {
  const files = paths.map((path) => ({ path, identity: identityOf(path) }));
  return () =>
    files.every(({ path, identity }) => {
      const now = identityOf(path);
      return identity === 'unknown' || identity === 'absent' || now === 'unknown' || now === identity;
    });
}

/** The device and the number of the file there. A number is not given to another file while this one is held open. */
function identityOf(path: string): string {
  try {
    const { dev, ino } = statSync(path, { bigint: true });
    return `${dev}:${ino}`;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'absent' : 'unknown';
  }
}
