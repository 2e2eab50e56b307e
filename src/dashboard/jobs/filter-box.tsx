// The filter box: the terms of the CLI in one line, with completion. The address has the text.

import { useSignal } from '@preact/signals';
import { useEffect, useId, useRef } from 'preact/hooks';
import type { JobRow } from '../../app/client.ts';
import { proposeTerms, termNames } from '../../app/filter-terms.ts';
import { formatList } from '../../app/format.ts';
import { useKeys } from '../keys.ts';

interface FilterBoxProps {
  readonly text: string;
  readonly problems: readonly string[];
  /** Their values are proposed. */
  readonly rows: () => Iterable<JobRow>;
  readonly onChange: (text: string) => void;
}

/** In milliseconds. A browser refuses many changes of the address in a short time. */
const pause = 120;

export function FilterBox({ text, problems, rows, onChange }: FilterBoxProps) {
  const typed = useSignal(text);
  const sent = useRef(text);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const input = useRef<HTMLInputElement>(null);
  const [list, help] = [useId(), useId()];
  useEffect(() => {
    if (text === sent.current) return;
    sent.current = text;
    typed.value = text;
  }, [text]);
  useKeys([{ key: '/', summary: 'Filter', act: () => input.current?.focus() }], []);
  const send = (): void => {
    clearTimeout(timer.current);
    if (typed.peek() === sent.current) return;
    sent.current = typed.peek();
    onChange(typed.peek());
  };
  return (
    <div class="filter">
      <input
        ref={input}
        type="search"
        aria-label="Filter"
        aria-describedby={help}
        placeholder="phase:failed zone:us-west4-a lr"
        list={list}
        autocomplete="off"
        spellcheck={false}
        value={typed.value}
        onInput={(event) => {
          typed.value = event.currentTarget.value;
          clearTimeout(timer.current);
          timer.current = setTimeout(send, pause);
        }}
        onBlur={send}
        onKeyDown={(event) => {
          if (event.key === 'Enter') send();
          if (event.key === 'Enter' || event.key === 'Escape') event.currentTarget.blur();
        }}
      />
      <datalist id={list}>
        {proposeTerms(typed.value, rows()).map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
      <p id={help} class={problems.length === 0 ? 'hidden' : 'warn'} role="status">
        {problems.length === 0
          ? `Terms: ${formatList(termNames)}, each with a colon and a value. The list searches for any other text in ids, names, tags and details.`
          : problems.join(' ')}
      </p>
    </div>
  );
}
