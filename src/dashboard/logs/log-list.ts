// The logs of an attempt or a setup step, listed again when the job changes.

import type { JobView, LogQuery, LogRef } from '../../app/client.ts';
import { isFinishedPhase } from '../../core/decide/phase.ts';
import { second, type Duration } from '../../core/model/time.ts';
import { onChange } from '../live.ts';
import { client, errorLines } from '../session.ts';

export interface LogList {
  readonly logs: readonly LogRef[] | null;
  /** The error of the newest read, with its hints; null if it succeeded. */
  readonly failure: readonly string[] | null;
}

/** For logs of setup steps: the stream of changes has only the logs of commands. */
const refreshTime: Duration = 2 * second;
/** After a failed read. */
const retryTime: Duration = 5 * second;

/** Calls back with each list until the returned function is called. */
export function followLogList(
  job: string,
  query: LogQuery,
  isOpen: () => boolean,
  onList: (list: LogList) => void,
): () => void {
  let isOver = false;
  let isReading = false;
  let isDue = false;
  let last: LogList = { logs: null, failure: null };
  let retry: ReturnType<typeof setTimeout> | undefined;

  async function read(): Promise<void> {
    isDue = true;
    if (isReading) return;
    isReading = true;
    while (isDue && !isOver) {
      isDue = false;
      clearTimeout(retry);
      try {
        last = { logs: await client.logs(job, query), failure: null };
      } catch (error) {
        last = { ...last, failure: errorLines(error) };
        // No other change may come.
        retry = setTimeout(() => void read(), retryTime);
      }
      if (!isOver) onList(last);
    }
    isReading = false;
  }

  const leave = onChange(
    (change) => {
      if (
        change.kind === 'event'
          ? change.job === job
          : change.kind === 'log' && change.log.job === job && isUnknown(change.log.id)
      )
        void read();
    },
    () => void read(),
  );
  const isUnknown = (id: string): boolean => last.logs?.every((log) => log.id !== id) !== false;
  const refresh = setInterval(() => {
    if (isOpen() && document.visibilityState === 'visible') void read();
  }, refreshTime);
  void read();
  return () => {
    isOver = true;
    clearTimeout(retry);
    leave();
    clearInterval(refresh);
  };
}

/** True if the logs may grow without a change that says so. */
export function mayGrowQuietly(view: JobView | null, step: string | null): boolean {
  return view !== null && step !== null && !isFinishedPhase(view.phase);
}
