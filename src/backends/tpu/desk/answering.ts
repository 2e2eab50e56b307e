// The moment from which workers can be worked with: the cloud calls a TPU ready before its machines let anybody in.

import { exitCode, JobmanError } from '../../../app/errors.ts';
import { minute } from '../../../core/time.ts';
import type { Duration } from '../../../core/time.ts';
import type { Say, WorkerAnswer } from '../../../lab/tpu-desk.ts';
import type { LabTpu } from '../../../lab/tpus.ts';
import type { ChangeParts } from './parts.ts';
import { teller, untilTrue } from './wait.ts';

/** How long machines that are new may take to let somebody in; one that nobody's key opens never does. */
const newWithin: Duration = 3 * minute;

/** Prints what tells one boot of a machine from the next. */
export const bootScript = 'cat "${JOBMAN_BOOT_ID_FILE:-/proc/sys/kernel/random/boot_id}"';

/** Waits until every worker answers; with `isNew`, from another boot than before. */
export async function untilAnswering(
  parts: ChangeParts,
  tpu: LabTpu,
  say: Say,
  signal: AbortSignal,
  {
    isNew = () => true,
    most,
  }: { readonly isNew?: (worker: number, boot: string) => boolean; readonly most?: Duration } = {},
): Promise<void> {
  const told = teller(say);
  await untilTrue(parts.lookEvery, signal, {
    interrupted: `${tpu.name} is starting, and comes without this command`,
    hint: `tpu describe ${tpu.name}    says how it is`,
    late: `${tpu.name} does not answer by SSH yet`,
    ...(most === undefined ? {} : { most }),
    isSo: async () => {
      let answers: readonly WorkerAnswer[];
      try {
        answers = await parts.onWorkers(tpu, bootScript, signal);
      } catch (error) {
        // For a moment it may have no addresses.
        if (error instanceof JobmanError && error.code !== exitCode.interrupted) return false;
        throw error;
      }
      const there = answers.filter((one) => one.kind === 'ended' && isNew(one.worker, one.output.trim())).length;
      told(`${there} of ${answers.length} workers answer`);
      return there === answers.length;
    },
  });
}

/** The same for what has just been made. It is there, whether we can get in or not: then that is said, and nothing thrown. */
export async function untilLetIn(parts: ChangeParts, tpu: LabTpu, say: Say, signal: AbortSignal): Promise<void> {
  try {
    await untilAnswering(parts, tpu, say, signal, { most: newWithin });
  } catch (error) {
    if (!(error instanceof JobmanError) || error.code !== exitCode.failed) throw error;
    say(`${tpu.name} is ready, and does not let us in by SSH; \`tpu solve ${tpu.name}\` looks why`);
  }
}
