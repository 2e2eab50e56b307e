// The sections of the page of a job. Which one is shown, and the attempt that it is about, are in the address.

import { address, changeQuery } from '../location.ts';

/** In the order of their keys, from 1. */
export const sections = [
  { name: 'overview', title: 'Overview' },
  { name: 'workers', title: 'Workers' },
  { name: 'metrics', title: 'Metrics' },
  { name: 'cost', title: 'Cost' },
  { name: 'manifest', title: 'Manifest' },
  { name: 'history', title: 'History' },
  { name: 'replay', title: 'Replay' },
] as const;

export type SectionName = (typeof sections)[number]['name'];

export function shownSection(): SectionName {
  const wanted = address.value.query.get('section');
  return sections.find(({ name }) => name === wanted)?.name ?? 'overview';
}

/** The parameters that only one section reads. */
const ownParameters = { decide: null, form: null, metrics: null, page: null, part: null, text: null };

/** The chosen attempt stays. */
export function showSection(name: SectionName): void {
  changeQuery({ ...ownParameters, section: name === 'overview' ? null : name });
}

/** The chosen attempt; null for all. */
export function shownAttempt(): number | null {
  const wanted = address.value.query.get('attempt') ?? '';
  return /^[1-9]\d{0,6}$/.test(wanted) ? Number(wanted) : null;
}

export function showAttempt(attempt: number | null): void {
  changeQuery({ attempt: attempt === null ? null : String(attempt), part: null, page: null });
}
