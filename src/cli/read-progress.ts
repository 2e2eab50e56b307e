import type { MetricsQuery } from '../app/client.ts';
import { exitCode, JobmanError } from '../app/errors.ts';
import { formatBytes } from '../app/format.ts';
import { drawStatusLine } from './block.ts';
import type { Cli } from './context.ts';
import { untilInterrupted } from './interrupt.ts';

/** Shows on a terminal how much of the logs is read. Ctrl-C ends the reading. Throws JobmanError (130) after it. */
export async function withReadProgress<T>(
  cli: Cli,
  work: (onRead: NonNullable<MetricsQuery['onRead']>) => Promise<T>,
): Promise<T> {
  let text: string | null = null;
  const line = drawStatusLine(cli, 250, () => text);
  try {
    return await untilInterrupted(cli, (signal) =>
      work((attempt, bytes, size) => {
        if (signal.aborted) throw new JobmanError('Interrupted while reading the logs.', exitCode.interrupted);
        text = `Reading attempt ${attempt}: ${formatBytes(bytes)}${size === null ? '' : ` of ${formatBytes(size)}`}`;
      }),
    );
  } finally {
    line.end();
  }
}
