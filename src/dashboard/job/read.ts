// A value of the server that is read again when its key changes. A failed read keeps the previous value.

import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import type { Change } from '../../app/client.ts';
import { second, type Duration } from '../../core/model/time.ts';
import { onChange } from '../live.ts';
import { errorLines } from '../session.ts';

export interface ReadState<Value> {
  /** The newest value; undefined before the first read. */
  readonly value: Value | undefined;
  readonly failure: readonly string[] | null;
  readonly isReading: boolean;
  readonly again: () => void;
}

/** A new `subject` drops the value, which is about the old one. A new `key` keeps the value until the next read succeeds. */
export function useRead<Value>(subject: string, key: unknown, read: () => Promise<Value>): ReadState<Value> {
  const state = useSignal<{
    readonly subject: string;
    readonly value?: Value;
    readonly failure: readonly string[] | null;
    readonly isReading: boolean;
  }>({ subject, failure: null, isReading: true });
  const turn = useSignal(0);
  useEffect(() => {
    let isOver = false;
    const before = state.peek();
    const kept = before.subject === subject && before.value !== undefined ? { value: before.value } : {};
    state.value = { subject, ...kept, failure: before.subject === subject ? before.failure : null, isReading: true };
    read().then(
      (value) => {
        if (!isOver) state.value = { subject, value, failure: null, isReading: false };
      },
      (error: unknown) => {
        if (!isOver) state.value = { subject, ...kept, failure: errorLines(error), isReading: false };
      },
    );
    return () => (isOver = true);
  }, [subject, key, turn.value]);
  const { value, failure, isReading } = state.value;
  return {
    value: state.value.subject === subject ? value : undefined,
    failure,
    isReading,
    again: () => (turn.value += 1),
  };
}

/** Reads again while it is due and the page is visible, `interval` after the previous read. */
export function useRefresh({ isReading, again }: ReadState<unknown>, isDue: boolean, interval: Duration): void {
  useEffect(() => {
    if (isReading || !isDue) return undefined;
    const next = setInterval(() => {
      if (document.visibilityState === 'visible') again();
    }, interval);
    return () => clearInterval(next);
  }, [isReading, isDue]);
}

/** Many changes in a short time are one read. */
const batchTime: Duration = 2 * second;

/** Reads again after the changes that affect the value, while the page is visible. */
export function useChanges(state: ReadState<unknown>, isAffected: (change: Change) => boolean): void {
  const newest = useRef(state);
  newest.current = state;
  useEffect(() => {
    let isDue = false;
    const wanted = (): void => void (isDue = true);
    const leave = onChange((change) => {
      if (isAffected(change)) wanted();
    }, wanted);
    // A read in progress may be too early for the change.
    const batches = setInterval(() => {
      if (!isDue || newest.current.isReading || document.visibilityState !== 'visible') return;
      isDue = false;
      newest.current.again();
    }, batchTime);
    return () => {
      clearInterval(batches);
      leave();
    };
  }, []);
}
