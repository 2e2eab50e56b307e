import type { Event } from '../core/decision.ts';

/** One line for job.log; null for what nobody needs to read there. */
export function eventSentence(event: Event): string | null {
  const { kind, at: _at, ...rest } = event;
  const parts = Object.entries(rest).map(
    ([name, value]) => `${name} ${typeof value === 'object' ? JSON.stringify(value) : String(value)}`,
  );
  return [kind.replaceAll('_', ' '), ...parts].join(', ');
}
