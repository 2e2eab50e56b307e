// A value of the server that is read again when its key changes. A failed read keeps the value before it.

import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { linesOf } from '../session.ts';

export interface ReadState<Value> {
  /** The newest that could be read; undefined before the first. */
  readonly value: Value | undefined;
  readonly failure: readonly string[] | null;
  readonly isReading: boolean;
  readonly again: () => void;
}

/** `subject`: with another one, an old value would be wrong, and is dropped. `key`: with another one, the value is old. */
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
        if (!isOver) state.value = { subject, ...kept, failure: linesOf(error), isReading: false };
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
