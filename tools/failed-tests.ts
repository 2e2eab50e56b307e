// A reporter of node's test runner: one line for each test that failed, `FILE: NAME`. `.ci/run` reads which files to run again.

import { relative } from 'node:path';
import type { TestEvent } from 'node:test/reporters';

/** A suite, or a test of tests, that failed by what it holds has no line of its own. */
// oxlint-disable-next-line import/no-default-export -- the runner takes a reporter's default export.
export default async function* failedTests(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  for await (const { type, data } of events) {
    if (type !== 'test:fail') continue;
    const { failureType } = data.details.error as Error & { readonly failureType?: string };
    // A test that a suite for several files defines counts as the file's that runs it.
    const file = data.entryFile ?? data.file ?? data.name;
    if (failureType !== 'subtestsFailed') yield `${relative('', file)}: ${data.name}\n`;
  }
}
