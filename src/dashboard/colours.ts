// Light or dark: the choice of the system or of the person.

import { effect, signal } from '@preact/signals';
import { readChoice, storeChoice } from './choices.ts';

const all = ['system', 'light', 'dark'] as const;
type Colours = (typeof all)[number];

export const colours = signal<Colours>(all.find((one) => one === readChoice('colours')) ?? 'system');

export function nextColours(current: Colours): Colours {
  return all[(all.indexOf(current) + 1) % all.length] ?? 'system';
}

effect(() => {
  storeChoice('colours', colours.value);
  if (typeof document !== 'undefined') document.documentElement.dataset['colours'] = colours.value;
});
