// Reporter for node's test runner: a line `FILE: NAME: ERROR` for each failed test. `.ci/run` runs those files again, and prints
// these lines at its end.

import { relative } from 'node:path';
import type { TestEvent } from 'node:test/reporters';

/** A suite that failed only because of its tests has no line. */
// oxlint-disable-next-line import/no-default-export -- the runner takes a reporter's default export.
export default async function* failedTests(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  for await (const { type, data } of events) {
    if (type !== 'test:fail') continue;
    const { failureType, cause, message } = data.details.error as Error & { readonly failureType?: string };
    // A test from a shared suite counts for the file that runs it.
    const file = data.entryFile ?? data.file ?? data.name;
    if (failureType === 'subtestsFailed') continue;
    const [line = ''] = (cause instanceof Error ? cause.message : message).trim().split('\n');
    yield `${relative('', file)}: ${data.name}: ${line.slice(0, 120)}\n`;
  }
}
