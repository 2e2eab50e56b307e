// Keys: the table of the current effect of each key. No key acts in a field, or with Ctrl, Alt or Meta. A checkbox turns them off.

import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { readChoice, storeChoice } from './choices.ts';

export interface KeyAction {
  /** As `KeyboardEvent.key`. Two with a space between them are pressed one after the other: `g j`. */
  readonly key: string;
  readonly summary: string;
  readonly act: () => void;
}

interface Group {
  actions: readonly KeyAction[];
}

export const keysEnabled = signal(readChoice('keys') !== 'off');
/** The newest group first: a page comes before the frame around it, and a dialog before its page. */
const groups: Group[] = [];
/** The actions of all groups, in their order. */
export const keyTable = signal<readonly KeyAction[]>([]);

export function enableKeys(enabled: boolean): void {
  keysEnabled.value = enabled;
  storeChoice('keys', enabled ? 'on' : 'off');
}

/** The keys act while the component is shown. A changed dependency replaces the list of keys. */
export function useKeys(actions: readonly KeyAction[], dependencies: readonly unknown[]): void {
  const group = useRef<Group>({ actions });
  // At once: a key may come before the effects of this drawing.
  group.current.actions = actions;
  useEffect(() => {
    groups.unshift(group.current);
    return () => {
      groups.splice(groups.indexOf(group.current), 1);
      keyTable.value = firstOfEachKey();
    };
  }, []);
  useEffect(() => {
    keyTable.value = firstOfEachKey();
  }, dependencies);
}

/** Two tables of a page have the same keys. */
function firstOfEachKey(): readonly KeyAction[] {
  const all = groups.flatMap(({ actions }) => actions);
  return all.filter(({ key }, at) => all.findIndex((one) => one.key === key) === at);
}

const prefixTime = 1500;

export function listenForKeys(): void {
  let prefix = '';
  let prefixAt = 0;
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing || isField(event.target)) return;
    if (!keysEnabled.peek() && event.key.length === 1) return;
    const typed = performance.now() - prefixAt < prefixTime && prefix !== '' ? `${prefix} ${event.key}` : event.key;
    prefix = '';
    // Each dialog has its own keys; the page below it has none.
    const open = document.querySelector('dialog[open]');
    const actions = open === null ? firstOfEachKey() : (groups[0]?.actions ?? []);
    const found = actions.find(({ key }) => key === typed);
    if (found !== undefined) {
      event.preventDefault();
      found.act();
    } else if (actions.some(({ key }) => key.startsWith(`${event.key} `))) {
      prefix = event.key;
      prefixAt = performance.now();
    }
  });
}

function isField(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || target.matches('input:not([type=checkbox]), textarea, select');
}
