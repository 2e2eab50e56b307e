import { exitCode } from '../app/errors.ts';
import { wantsJson } from './context.ts';
import type { ErrorOutput } from './outputs.ts';

/** The text for standard error after an error that nothing expected; with --json one object. */
export function formatBug(argv: readonly string[], version: string, error: unknown): string {
  const text = String(error instanceof Error ? error.stack : error);
  // The error may contain text of a manifest or of a cloud.
  const lines = text.replace(/[^\P{Cc}\n]|[\u202a-\u202e\u2066-\u2069]/gu, '?').split('\n');
  const title = `jobman ${version} failed because of a bug:`;
  if (!wantsJson(argv)) return `${[title, ...lines].join('\n')}\n`;
  const [first = '', ...hints] = lines.map((line) => line.trim());
  const facts = { code: 'failed', exitCode: exitCode.failed, message: `${title} ${first}`, job: null } as const;
  return `${JSON.stringify({ error: { ...facts, hints, problems: [], reasons: [] } } satisfies ErrorOutput)}\n`;
}
