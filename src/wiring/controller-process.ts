// Everything that one running controller is made of.

import { join } from 'node:path';
import { pino } from 'pino';
import { fileError } from '../app/file-trouble.ts';
import { createLogFiles } from '../app/log-files.ts';
import { exitCode, JobmanError, StoreError } from '../app/errors.ts';
import type { Store } from '../app/ports.ts';
import { runController } from '../controller/process.ts';
import { readController } from '../controller/running.ts';
import { openStore } from '../store/store.ts';
import { createBackends } from './backends.ts';
import { lendConnections } from './by-hand.ts';
import { createClock } from './clock.ts';
import { openClusterMirror } from './cluster-mirror.ts';
import type { ControllerParts } from './controller-service.ts';
import { recordFile } from './paths.ts';
import { keepCopies } from './record-copies.ts';

/** Runs it in this process until a signal, a request to leave, or until nothing is left to watch; resolves with the exit code. */
export async function runInForeground(
  parts: ControllerParts & { readonly idleExitMs: number | null },
): Promise<number> {
  const { io, home } = parts;
  const settings = await parts.settings();
  const store = openStore({ file: recordFile(home) });
  const clock = createClock(() => io.now());
  await expectUsable(store);
  const logFiles = createLogFiles({ home, history: (id, after) => store.events(id, after) });
  const logger = pino(
    { base: null, timestamp: pino.stdTimeFunctions.isoTime },
    { write: (line) => io.stderr.write(line) },
  );
  const copies = keepCopies({ file: recordFile(home), clock, warn: (line) => logger.warn(line) });
  let endLending: Promise<() => Promise<void>> | undefined;
  let wakeJob: (id: string) => void = () => undefined;
  /** What looks around now and then does so with the renewal of the lease, so that at rest one timer wakes all. */
  const lookingAround = new Set<() => void>();
  const rounds = (call: () => void) => {
    lookingAround.add(call);
    return () => lookingAround.delete(call);
  };
  const backends = await createBackends({ io, home, settings, clock, logFiles, rounds, changed: (id) => wakeJob(id) });
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
      idleExitMs: parts.idleExitMs,
      pid: io.pid,
      onStop: (call) => io.onSignal(call),
      beside: () => openClusterMirror({ io, home, store, clock, say: (line) => logger.info(line) }),
      onRenewal: () => lookingAround.forEach((call) => call()),
      onBegun: (controller) => {
        wakeJob = (id) => controller.wake(id);
        copies.begin();
        // Only now: the lock is ours, and with it the socket's name. Commands do without it where it cannot be had.
        endLending ??= lendConnections({ home, version: io.version, store, workers: backends.workers }).catch(
          (error: unknown) => {
            logger.warn(
              `connections are not lent to commands: ${error instanceof Error ? error.message : String(error)}`,
            );
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
    logger.info(`left: ${because}`);
    return exitCode.ok;
  } catch (error) {
    // The lock and the files that say who runs are in the home folder itself.
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

/**
 * A controller that begins with a record it can never use would sit there and look as if it did its work. A disk that is
 * full or a file that is busy may be put right; for that it waits.
 */
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
