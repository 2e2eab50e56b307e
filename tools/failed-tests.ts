// Reporter for node's test runner: a line `FILE: NAME: ERROR` for each failed test. `.ci/run` runs those files again, and prints
// these lines at its end.

import { relative } from 'node:path';
import type { TestEvent } from 'node:test/reporters';

/**
 * The runner reports an error after the end of its test or hook, or of neither, with this text. It exits with 1 and counts no
 * test as failed.
 */
const lateError =
  /^Error: (?:Test (?:hook )?"(?<name>.*?)"(?: at (?<file>.+?):\d+:\d+)?|A resource) generated asynchronous activity .*? created the error "(?<error>.*)" (?:and would|which triggered)/s;

/** A suite that failed only because of its tests has no line. */
// oxlint-disable-next-line import/no-default-export -- the runner takes a reporter's default export.
export default async function* failedTests(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  for await (const { type, data } of events) {
    if (type === 'test:diagnostic') {
      const late = lateError.exec(data.message)?.groups;
      const { name = '(no test)', file = '(no file)', error = '' } = late ?? {};
      if (late !== undefined) yield `${file}: ${name}: after its end: ${inOneLine(error)}\n`;
    }
    if (type !== 'test:fail') continue;
    const { failureType, cause, message } = data.details.error as Error & { readonly failureType?: string };
    // A test from a shared suite counts for the file that runs it.
    const file = data.entryFile ?? data.file ?? data.name;
    if (failureType === 'subtestsFailed') continue;
    yield `${relative('', file)}: ${data.name}: ${inOneLine(cause instanceof Error ? cause.message : message)}\n`;
  }
}

/** The first lines in one, because an error of a test often says in the second what happened. */
function inOneLine(text: string): string {
  const lines = text.trim().split('\n').filter(Boolean);
  return lines.slice(0, 6).join(' | ').slice(0, 500);
}
