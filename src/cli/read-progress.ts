import type { MetricsStep, MetricsView } from '../app/client.ts';
import { exitCode, JobmanError } from '../app/errors.ts';
import { formatBytes } from '../app/format.ts';
import { metricsResult } from '../app/job-source.ts';
import { drawStatusLine } from './block.ts';
import type { Cli } from './context.ts';
import { untilInterrupted } from './interrupt.ts';

/** Shows on a terminal how much of the logs is read. Ctrl-C ends the reading. Throws JobmanError (130) after it. */
export async function readMetrics(cli: Cli, steps: AsyncIterable<MetricsStep>): Promise<MetricsView> {
  let text: string | null = null;
  const line = drawStatusLine(cli, 250, () => text);
  async function* shown(signal: AbortSignal): AsyncIterable<MetricsStep> {
    for await (const step of steps) {
      if (signal.aborted) throw interruptedError();
      yield step;
      if (step.kind === 'result') return;
      const { attempt, bytes, size } = step;
      text = `Reading attempt ${attempt}: ${formatBytes(bytes)}${size === null ? '' : ` of ${formatBytes(size)}`}`;
    }
  }
  try {
    return await untilInterrupted(cli, (signal) => metricsResult(shown(signal)));
  } finally {
    line.end();
  }
}

export function interruptedError(): JobmanError {
  return new JobmanError('Interrupted while reading the logs.', exitCode.interrupted);
}
