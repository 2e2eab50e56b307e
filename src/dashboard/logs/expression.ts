// Regular expressions, matched in a thread of their own: one that takes too long ends with its thread, and the page stays alive.

import { usageError } from '../../app/errors.ts';
import type { Matcher } from '../../app/find-line.ts';
import { second, type Duration } from '../../core/model/time.ts';
// eslint-disable-next-line import/default -- the build makes the address
import workerUrl from './expression-worker.ts?worker&url';
import type { ExpressionAnswer, ExpressionTask } from './expression-task.ts';

/** For a block of a log, or for the lines of a screen. */
const maxTime: Duration = 2 * second;

interface TrustedTypes {
  createPolicy(name: string, rules: { createScriptURL: () => string }): { createScriptURL(url: string): string };
}

/** The only address of a script that the policy of the pages allows a script to use (src/server/pages.ts). */
const trusted = (globalThis as { readonly trustedTypes?: TrustedTypes }).trustedTypes?.createPolicy(
  'jobman-expressions',
  { createScriptURL: () => workerUrl },
);

let thread: Worker | null = null;
/** One task at a time, so that each has its own time limit. */
let last: Promise<unknown> = Promise.resolve();
const slow = new Set<string>();

/** Throws JobmanError if the expression takes too long. */
function match<Task extends ExpressionTask>(task: Task): Promise<ExpressionAnswer<Task>> {
  const answer = last.then(() => run(task));
  last = answer.catch(() => undefined);
  return answer;
}

async function run<Task extends ExpressionTask>(task: Task): Promise<ExpressionAnswer<Task>> {
  if (slow.has(task.expression)) throw tooSlow();
  const own = (thread ??= new Worker(trusted?.createScriptURL('') ?? workerUrl));
  let limit: ReturnType<typeof setTimeout> | undefined;
  try {
    return await new Promise((resolve, reject) => {
      own.onmessage = ({ data }: MessageEvent<ExpressionAnswer<Task>>) => resolve(data);
      own.onerror = ({ message }) => reject(new Error(message));
      own.postMessage(task);
      limit = setTimeout(() => {
        slow.add(task.expression);
        reject(tooSlow());
      }, maxTime);
    });
  } catch (error) {
    own.terminate();
    thread = null;
    throw error;
  } finally {
    clearTimeout(limit);
  }
}

function tooSlow(): Error {
  return usageError('The expression takes too long. Simplify it, or search for a text.');
}

/** The edges of the matches in each of these lines. Throws JobmanError if that takes too long. */
export function matchLines(expression: string, lines: readonly string[]): Promise<readonly (readonly number[])[]> {
  return match({ kind: 'lines', expression, lines });
}

/** Its `find` throws JobmanError if a block takes too long. */
export function expressionMatcher(expression: string): Matcher {
  return { find: (block, which) => match({ kind: 'block', expression, block, which }) };
}
