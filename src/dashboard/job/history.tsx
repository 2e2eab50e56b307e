// The history of a job: one sentence for each event, in pages.

import { useMemo } from 'preact/hooks';
import { isEventOf } from '../../app/attempt-timeline.ts';
import {
  escapeLine,
  formatDate,
  formatDuration,
  formatList,
  formatTimeOfDay,
  formatTimestamp,
} from '../../app/format.ts';
import { describeEvent, withoutRepeatedLosses } from '../../app/history.ts';
import { second } from '../../core/model/time.ts';
import { now } from '../clock.ts';
import { address, changeQuery } from '../location.ts';
import { Failure, FilteredOut } from '../parts/messages.tsx';
import type { SectionProps } from './page.tsx';
import { Pager } from './pager.tsx';
import { shownAttempt, showAttempt } from './sections.ts';

const pageSize = 150;

export function HistorySection({ view, log: { events, failure } }: SectionProps) {
  const attempt = shownAttempt();
  const text = address.value.query.get('text') ?? '';
  const all = useMemo(
    () =>
      withoutRepeatedLosses((events ?? []).map(({ event }) => event)).map((event) => ({
        event,
        message: escapeLine(describeEvent(event, view)),
      })),
    [events, view.spec],
  );
  const isWanted = attempt === null ? () => true : isEventOf(attempt, view.attempts);
  const wanted = [
    ...(attempt === null ? [] : [`belongs to attempt ${attempt}`]),
    ...(text === '' ? [] : [`contains “${text}”`]),
  ];
  const rows = all.filter(
    ({ event, message }) => isWanted(event) && message.toLowerCase().includes(text.toLowerCase()),
  );
  return (
    <section aria-label="History">
      <div class="bar">
        <h2>History</h2>
        <input
          type="search"
          aria-label="Find in the history"
          placeholder="Find in the history"
          value={text}
          onInput={({ currentTarget }) => changeQuery({ text: currentTarget.value, page: null })}
        />
        <span class="quiet">times in UTC</span>
      </div>
      {failure !== null && <Failure lines={failure} retry={null} />}
      {events === null && failure === null && <p class="quiet">Reading the history…</p>}
      {events !== null && rows.length === 0 && all.length > 0 && (
        <FilteredOut
          onClear={() => {
            showAttempt(null);
            changeQuery({ text: null });
          }}
        >
          None of {all.length} events {formatList(wanted)}.
        </FilteredOut>
      )}
      <Pager label="events" rows={rows} pageSize={pageSize}>
        {(shown) => (
          <ol class="events">
            {shown.map(({ event, message }, index) => {
              const before = shown[index - 1]?.event.at;
              const isNewDay =
                before === undefined || formatDate(before, now.peek()) !== formatDate(event.at, now.peek());
              const later =
                before === undefined || event.at - before < second ? '' : `+${formatDuration(event.at - before)}`;
              return (
                <li key={`${event.at} ${index}`}>
                  {isNewDay && <b class="day">{formatDate(event.at, now.peek())}</b>}
                  <time dateTime={formatTimestamp(event.at)}>{formatTimeOfDay(event.at)}</time>
                  <span class="later quiet">{later}</span>
                  <span>{message}</span>
                </li>
              );
            })}
          </ol>
        )}
      </Pager>
    </section>
  );
}
