// Setup steps that a person asked for, joined to the machines of the job.

import { createLogFiles } from '../app/log-files.ts';
import type { Services, StepRunner } from '../app/services.ts';
import type { Job } from '../core/job.ts';
import { createBackends } from './backends.ts';
import { createClock } from './clock.ts';
import { expectOriginal } from './original-home.ts';
import { recordFile } from './paths.ts';

/** As `Services.stepRunner` promises it. What the steps print also goes into their logs, as when the controller does them. */
export async function createStepRunner(services: Services, job: Job): Promise<StepRunner> {
  const { io, home } = services;
  // The step would change the machines before its result is refused.
  await expectOriginal(recordFile(home));
  const backends = await createBackends({
    io,
    home,
    settings: await services.settings(),
    clock: createClock(() => io.now()),
    logFiles: createLogFiles({ home, history: () => Promise.resolve([]) }),
    changed: () => undefined,
  });
  const { machines } = backends.of(job.spec);
  return {
    run: (worker, { allocation, step }, byHand) => machines.step({ job, allocation, worker }, step, byHand),
    close: () => backends.close(),
  };
}
