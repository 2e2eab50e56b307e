// A value that a page reads once, and again after a change. The previous value stays during a read and after a failure.

import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { formatAge } from '../../app/format.ts';
import type { Instant } from '../../core/model/time.ts';
import { now } from '../clock.ts';
import { serverNow } from '../live.ts';
import { errorLines } from '../session.ts';
import { Failure } from './messages.tsx';

export interface Reading<T> {
  /** The newest value; null before the first. */
  readonly value: T | null;
  readonly readAt: Instant | null;
  /** The error of the newest read, with its hints; null if it succeeded. */
  readonly failure: readonly string[] | null;
  readonly again: () => void;
}

/** Reads when the component is shown, and when a dependency changes. */
export function useReading<T>(read: () => Promise<T>, dependencies: readonly unknown[]): Reading<T> {
  const state = useSignal<Omit<Reading<T>, 'again'>>({ value: null, readAt: null, failure: null });
  const newest = useSignal(0);
  const again = (): void => {
    const own = (newest.value = newest.peek() + 1);
    read().then(
      (value) => {
        if (own === newest.peek()) state.value = { value, readAt: serverNow(), failure: null };
      },
      (error: unknown) => {
        if (own === newest.peek()) state.value = { ...state.peek(), failure: errorLines(error) };
      },
    );
  };
  useEffect(again, dependencies);
  return { ...state.value, again };
}

interface ShownProps<T> {
  readonly reading: Reading<T>;
  readonly children: (value: T) => ComponentChildren;
}

/** Shows the failure of the newest read above the value, which may be old. */
export function Shown<T>({ reading: { value, readAt, failure, again }, children }: ShownProps<T>) {
  if (value === null && failure === null) return <p class="quiet">Reading…</p>;
  const age = readAt === null ? [] : [`The contents below are ${formatAge(now.value - readAt)} old.`];
  return (
    <>
      {failure !== null && <Failure lines={[...failure, ...age]} retry={again} />}
      {value !== null && children(value)}
    </>
  );
}
