// Dashboard links: where a program's log says that its curves are, in Weights & Biases or TensorBoard. The text is the
// program's and may be hostile: a URL counts only with http or https, and a path has no control characters.

import { withoutColours } from './log-lines.ts';

/** The links of a log; null for one that it lacks. */
export interface DashboardLinks {
  /** The run at Weights & Biases. */
  readonly wandb: string | null;
  /** A folder with event files of TensorBoard: a path on the worker, or a URL of a bucket. */
  readonly tensorboard: string | null;
}

const maxLength = 500;

/** A longer line is not a message of these libraries. Bounds the work for a hostile log. */
const maxLineLength = 1_000;

/** `wandb: View run vit-3 at: https://wandb.ai/lab/vit/runs/abc`, as wandb prints it at the begin and the end of a run. */
const runPattern = /\bwandb:.*\bview run\b.*?\s(https?:\/\/[!-~]+)\s*$/i;

/** The begin of a path or URL, after a space or a separator; then printable characters without quotes and separators. */
const path = String.raw`(?<![^\s"'=:(,])((?:[a-z]{1,10}:\/\/|\.{0,2}\/|~\/)[!#-&(-+\--:<-~]{0,${maxLength}})`;
/** `--logdir /data/tb`, `logdir=gs://bucket/tb`, `TensorBoard logs: ./runs`. */
const logdirPattern = new RegExp(String.raw`(?:\blog_?dir[=:\s]\s*|\btensorboard\b.*?[\s:=])["']?${path}`, 'i');
const eventFilePattern = new RegExp(String.raw`${path}\/events\.out\.tfevents\.[\w.-]+`, 'i');
const mayMatter = /wandb:|log_?dir|tensorboard|tfevents/i;

/** The newest link of each kind in this part of a log. */
export function dashboardLinksOf(text: string): DashboardLinks {
  const lines = text
    .split('\n')
    .filter((line) => line.length <= maxLineLength && mayMatter.test(line))
    .map(withoutColours)
    .toReversed();
  const newest = (pattern: RegExp) => lines.map((line) => pattern.exec(line)?.[1]).find((found) => found !== undefined);
  const run = newest(runPattern);
  const folder = newest(eventFilePattern) ?? newest(logdirPattern);
  return {
    wandb: run === undefined ? null : (safeUrl(run) ?? null),
    tensorboard: folder === undefined ? null : folder.replace(/[.,]$/, ''),
  };
}

/** Undefined for another protocol, and for a URL with a password. */
function safeUrl(text: string): string | undefined {
  if (text.length > maxLength || !URL.canParse(text)) return undefined;
  const url = new URL(text);
  const isWeb = url.protocol === 'https:' || url.protocol === 'http:';
  return isWeb && url.username === '' && url.password === '' ? url.href : undefined;
}
