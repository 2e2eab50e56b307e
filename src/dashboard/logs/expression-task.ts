// The tasks of the thread of expressions, which need no thread.

import { asBytes, findInLines } from '../../app/find-line.ts';
import { edgesOf } from './find.ts';

interface BlockTask {
  readonly kind: 'block';
  readonly expression: string;
  /** One character is one byte. */
  readonly block: string;
  readonly which: 'first' | 'last';
}

interface LinesTask {
  readonly kind: 'lines';
  readonly expression: string;
  readonly lines: readonly string[];
}

export type ExpressionTask = BlockTask | LinesTask;

/** Of a block, the index of the line that matches; of lines, the edges of the matches in each. */
export type ExpressionAnswer<Task extends ExpressionTask> = Task extends BlockTask
  ? number | null
  : readonly (readonly number[])[];

/** Throws SyntaxError for an invalid expression. */
export function perform(task: ExpressionTask): ExpressionAnswer<BlockTask> | ExpressionAnswer<LinesTask> {
  if (task.kind === 'lines') {
    const pattern = new RegExp(task.expression, 'gi');
    return task.lines.map((line) => edgesOf(pattern, line));
  }
  const pattern = new RegExp(asBytes(task.expression), 'i');
  return findInLines(task.block, task.which, (line) => pattern.test(line));
}
