// The screen that a user of `list --watch` sees, and the next one for each key.

import type { JobRow } from '../../app/client.ts';
import type { Key } from './keys.ts';

export interface State {
  /** The table; one job in full; why it is in its phase; which keys there are. */
  readonly screen: 'list' | 'show' | 'why' | 'keys';
  /** The job that the keys are about; null while there is none. */
  readonly selected: string | null;
  /** Lines of the text above the screen. */
  readonly scrolled: number;
}

export type Wish = 'leave' | 'interrupt' | 'logs' | null;

export const atFirst: State = { screen: 'list', selected: null, scrolled: 0 };

/** The selected job is one of the list: the one that was, or where it has left the list, the first. */
export function withRows(state: State, rows: readonly Pick<JobRow, 'id'>[]): State {
  const isThere = rows.some(({ id }) => id === state.selected);
  return isThere || state.screen !== 'list' ? state : { ...state, selected: rows[0]?.id ?? null };
}

/** `page` is how many jobs, or lines of a text, fit on the screen. */
export function press(
  state: State,
  key: Key,
  rows: readonly Pick<JobRow, 'id'>[],
  page: number,
): { readonly state: State; readonly wish: Wish } {
  if (key === 'interrupt') return { state, wish: 'interrupt' };
  if (key === 'q' || key === 'leave') return { state, wish: 'leave' };
  const by = step(key, page);
  if (by !== undefined)
    return { state: state.screen === 'list' ? select(state, rows, by) : scroll(state, by), wish: null };
  const hasJob = state.selected !== null;
  switch (key) {
    case '?':
    case 'h':
      return go(state, 'keys');
    case 'w':
      return hasJob ? go(state, 'why') : stay(state);
    case 'enter':
      return hasJob ? go(state, 'show') : stay(state);
    case 'l':
      return hasJob ? { state: { ...state, screen: 'list' }, wish: 'logs' } : stay(state);
    case 'escape':
      return { state: { ...state, screen: 'list', scrolled: 0 }, wish: null };
    default:
      return stay(state);
  }
}

/** The same key again goes back. */
function go(state: State, screen: State['screen']): { readonly state: State; readonly wish: Wish } {
  return { state: { ...state, screen: state.screen === screen ? 'list' : screen, scrolled: 0 }, wish: null };
}

function stay(state: State): { readonly state: State; readonly wish: Wish } {
  return { state, wish: null };
}

function step(key: Key, page: number): number | undefined {
  switch (key) {
    case 'j':
    case 'down':
      return 1;
    case 'k':
    case 'up':
      return -1;
    case ' ':
    case 'page down':
      return page;
    case 'page up':
      return -page;
    case 'g':
    case 'first':
      return Number.NEGATIVE_INFINITY;
    case 'G':
    case 'last':
      return Number.POSITIVE_INFINITY;
    default:
      return undefined;
  }
}

function select(state: State, rows: readonly Pick<JobRow, 'id'>[], by: number): State {
  const at = rows.findIndex(({ id }) => id === state.selected);
  const next = Math.min(rows.length - 1, Math.max(0, at + by));
  return { ...state, selected: rows[next]?.id ?? null };
}

/** Its end is found when it is drawn, where its length is known. */
function scroll(state: State, by: number): State {
  return { ...state, scrolled: Math.max(0, state.scrolled + by) };
}
