import { exitCode, JobmanError } from '../app/errors.ts';
import { redactPatterns } from '../catalogue/redact.ts';
import { wantsJson } from './context.ts';
import type { ErrorOutput } from './outputs.ts';

/** The text for standard error after an unexpected error; with --json one object. */
export function formatBug(argv: readonly string[], version: string, error: unknown): string {
  // Before the command began, such as for a relative JOBMAN_HOME in a removed folder.
  if (error instanceof JobmanError) return formatFailure(argv, error.message);
  const text = String(error instanceof Error ? error.stack : error);
  // The error may contain text of a manifest or of a cloud, also secrets.
  const lines = redactPatterns(text)
    .replace(/[^\P{Cc}\n]|[\u202a-\u202e\u2066-\u2069]/gu, '?')
    .split('\n');
  const title = `jobman ${version} failed because of a bug:`;
  if (!wantsJson(argv)) return `${[title, ...lines, advice].join('\n')}\n`;
  const [first = '', ...hints] = lines.map((line) => line.trim());
  return jsonError(`${title} ${first}`, [...hints, advice]);
}

const advice =
  'To report it, add the file that `jobman report --bundle` writes (with a job: `jobman report JOB --bundle`).';

/** The text for standard error after a failure outside of the command. */
export function formatFailure(argv: readonly string[], message: string): string {
  return wantsJson(argv) ? jsonError(message) : `jobman: ${message}\n`;
}

function jsonError(message: string, hints: readonly string[] = []): string {
  const facts = { code: 'failed', exitCode: exitCode.failed, message, job: null } as const;
  return `${JSON.stringify({ error: { ...facts, hints, problems: [], reasons: [] } } satisfies ErrorOutput)}\n`;
}
