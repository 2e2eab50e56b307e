// Near: of many items of any height, those near the view are drawn; the others are empty space, so that a page stays small.

import { signal, useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { flushSync } from 'preact/compat';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';

interface NearProps {
  readonly count: number;
  /** In pixels, of an item that was never drawn. */
  readonly itemHeight: number;
  /** The element of each item. */
  readonly as: 'tbody' | 'div' | 'li';
  readonly keyOf: (index: number) => string;
  readonly children: (index: number) => ComponentChildren;
}

/** Pixels above and below the view that are drawn too. */
const margin = 300;

const isPrinting = signal(false);
addEventListener('beforeprint', () => flushSync(() => (isPrinting.value = true)));
addEventListener('afterprint', () => (isPrinting.value = false));

/** Inside a scrollable `main` or `dialog`. A print has all items. */
export function Near({ count, itemHeight, as: Item, keyOf, children }: NearProps) {
  const space = useRef<HTMLElement>(null);
  const heights = useRef(new Map<string, number>());
  const range = useSignal({ first: 0, last: 0 });
  const heightOf = (index: number): number => heights.current.get(keyOf(index)) ?? itemHeight;
  const heightOfAll = (from: number, until: number): number => {
    let sum = 0;
    for (let index = from; index < until; index += 1) sum += heightOf(index);
    return sum;
  };

  const update = (): void => {
    const view = viewOf(space.current)?.getBoundingClientRect();
    // A dialog is hidden before it opens.
    if (space.current === null || view === undefined || view.height === 0) return;
    for (const element of space.current.parentElement?.querySelectorAll<HTMLElement>(':scope > [data-item]') ?? [])
      heights.current.set(element.dataset['item'] ?? '', element.getBoundingClientRect().height);
    const { first, last } = range.peek();
    const next = nearItems(space.current.getBoundingClientRect().top, count, heightOf, {
      top: view.top - margin,
      bottom: view.bottom + margin,
    });
    if (next.first !== first || next.last !== last) range.value = next;
  };
  const newest = useRef(update);
  newest.current = update;
  useLayoutEffect(update);
  useEffect(() => {
    const measure = (): void => newest.current();
    document.addEventListener('scroll', measure, { capture: true, passive: true });
    const resizes = new ResizeObserver(measure);
    const view = viewOf(space.current);
    if (view !== undefined) resizes.observe(view);
    return () => {
      document.removeEventListener('scroll', measure, { capture: true });
      resizes.disconnect();
    };
  }, []);

  const first = isPrinting.value ? 0 : Math.min(range.value.first, count);
  const last = isPrinting.value ? count : Math.min(range.value.last, count);
  const gap = (height: number, ref?: typeof space) => (
    // A row group without a row has no height.
    <Item ref={ref as never} aria-hidden="true" class="space" style={{ height: `${height}px` }}>
      {Item === 'tbody' && <tr style={{ height: `${height}px` }} />}
    </Item>
  );
  return (
    <>
      {gap(heightOfAll(0, first), space)}
      {Array.from({ length: last - first }, (_, offset) => {
        const key = keyOf(first + offset);
        return (
          <Item key={key} data-item={key}>
            {children(first + offset)}
          </Item>
        );
      })}
      {gap(heightOfAll(last, count))}
    </>
  );
}

function viewOf(element: HTMLElement | null): Element | undefined {
  return element?.closest('main, dialog') ?? undefined;
}

/** The items between two heights. `top`: of the first item. */
function nearItems(
  top: number,
  count: number,
  heightOf: (index: number) => number,
  view: { readonly top: number; readonly bottom: number },
): { readonly first: number; readonly last: number } {
  let first = 0;
  let at = top;
  while (first < count && at + heightOf(first) < view.top) {
    at += heightOf(first);
    first += 1;
  }
  let last = first;
  while (last < count && at < view.bottom) {
    at += heightOf(last);
    last += 1;
  }
  return { first, last };
}
