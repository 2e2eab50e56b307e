// The figures of the workers of a job. While the page is visible, it measures each worker repeatedly, few at a time.

import type { FiguresAnswer, FiguresTarget } from '../../app/worker-figures.ts';
import { mapConcurrent, pause } from '../../app/concurrency.ts';
import { messageOf } from '../../app/errors.ts';
import { second, type Duration } from '../../core/model/time.ts';
import { client } from '../session.ts';

export type FiguresByWorker = ReadonlyMap<FiguresTarget['worker'], FiguresAnswer>;

/** Each measurement uses a connection of the controller's machine. */
const maxConcurrent = 8;
/** Between two measurements of all workers. A server allows 100 requests per second. */
const interval: Duration = 5 * second;
const intervalOfWorker: Duration = 40;

/** Calls back with all answers until the returned function is called. A worker without a new answer keeps the old one. */
export function measureWorkers(
  id: string,
  targets: readonly FiguresTarget[],
  onFigures: (figures: FiguresByWorker) => void,
): () => void {
  const over = new AbortController();
  const answers = new Map<FiguresTarget['worker'], FiguresAnswer>();

  async function measure(target: FiguresTarget): Promise<void> {
    if (over.signal.aborted) return;
    const answer = await client
      .workerFigures(id, target)
      .catch((error: unknown) => ({ kind: 'unknown' as const, reason: messageOf(error) }));
    answers.set(target.worker, answer);
  }

  const length = Math.max(interval, intervalOfWorker * targets.length);
  async function run(): Promise<void> {
    while (!over.signal.aborted) {
      if (document.visibilityState === 'visible') {
        await mapConcurrent(targets, maxConcurrent, measure);
        if (!over.signal.aborted) onFigures(new Map(answers));
      }
      await pause(length, over.signal);
    }
  }

  void run();
  return () => over.abort();
}
