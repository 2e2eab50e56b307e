// `jobman ssh`: the system's own ssh, told everything that jobman knows about the way to a worker.

import { JobmanError, exitCode } from '../app/errors.ts';
import { createLogFiles } from '../app/log-files.ts';
import type { Services } from '../app/services.ts';
import { lastAllocation } from '../core/job.ts';
import { openStore } from '../store/store.ts';
import { createClock } from './clock.ts';
import { recordFile } from './paths.ts';
import { createTpuBackend } from './tpu.ts';

/** The argv for that worker of that job. Throws JobmanError when there is no such worker now. */
export async function sshArgv(
  services: Services,
  id: string,
  worker: number,
  command: readonly string[],
): Promise<readonly string[]> {
  const { io, home } = services;
  const store = openStore({ file: recordFile(home) });
  try {
    const stored = await store.load(id);
    if (stored === undefined) throw new JobmanError(`There is no job ${id}.`, exitCode.notFound);
    const { job } = stored;
    if (job.spec.capacity.kind !== 'tpu') {
      throw new JobmanError(`Job ${id} runs on this machine; there is nowhere to log in to.`, exitCode.usage);
    }
    const allocation = lastAllocation(job);
    if (
      allocation === undefined ||
      allocation.hosts === null ||
      allocation.goneAt !== null ||
      allocation.releasedAt !== null
    ) {
      throw new JobmanError(
        `Job ${id} has no machines now; \`jobman why ${id}\` says what it waits for.`,
        exitCode.conflict,
      );
    }
    if (worker >= allocation.hosts.length) {
      const last = allocation.hosts.length - 1;
      throw new JobmanError(`Job ${id} has no worker ${worker}; its workers are 0 to ${last}.`, exitCode.usage);
    }
    const tpu = createTpuBackend({
      io,
      home,
      settings: await services.settings(),
      clock: createClock(() => io.now()),
      logFiles: createLogFiles({ home, history: (of, after) => store.events(of, after) }),
    });
    try {
      return await tpu.workers.sshArgv({ job, allocation, worker }, command);
    } finally {
      tpu.close();
    }
  } finally {
    await store.close();
  }
}
