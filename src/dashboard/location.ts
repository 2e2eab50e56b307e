// The address of the page. It contains everything that a link should show: the page, its object and its filters.

import { signal } from '@preact/signals';

/** The path of this server, with a slash at its end; this file is in its folder `assets`. */
const root = import.meta.url.startsWith('http') ? new URL(/* @vite-ignore */ '..', import.meta.url).pathname : '/';

export interface Address {
  /** The segments of the path below the server, decoded: `['jobs', '000042']`. */
  readonly path: readonly string[];
  readonly query: URLSearchParams;
}

export const address = signal<Address>(readAddress());

/** The path of a page or an operation in this browser. */
export function serverPath(path: string): string {
  return root + path.replace(/^\//, '');
}

/** `href` of a link to a page: `pageHref(['jobs', '000042'])`. Null and empty values are left out. */
export function pageHref(path: readonly string[], query: Readonly<Record<string, string | null>> = {}): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => (entry[1] ?? '') !== '');
  const text = new URLSearchParams(given).toString();
  return serverPath(path.map(encodeURIComponent).join('/')) + (text === '' ? '' : `?${text}`);
}

/** The `position` of a link that opens logs at the first error of all workers. */
export const firstErrorPosition = 'first-error';

/** Shows another page. */
export function goTo(href: string): void {
  history.pushState(null, '', href);
  address.value = readAddress();
  window.scrollTo(0, 0);
}

/** In characters: a server refuses a request with more than 16 KiB of headers, and so a later load of the page. */
const maxHref = 8000;

/** Changes parameters of this page, without a new entry in the history. Null removes one. */
export function changeQuery(changes: Readonly<Record<string, string | null>>): void {
  const { path, query } = address.peek();
  const href = pageHref(path, { ...Object.fromEntries(query), ...changes });
  try {
    if (href.length <= maxHref) history.replaceState(null, '', href);
  } catch {
    // A browser refuses many changes in a short time. The page has the change in any case.
  }
  address.value = readAddress(new URL(href, location.origin));
}

/** Opens links to pages without loading the document again, and follows the browser's buttons Back and Forward. */
export function followLinks(): void {
  window.addEventListener('popstate', () => (address.value = readAddress()));
  document.addEventListener('click', (event) => {
    const link = event.target instanceof Element ? event.target.closest('a') : null;
    const isPlain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
    if (link === null || !isPlain || event.defaultPrevented || link.target !== '' || link.hasAttribute('download'))
      return;
    if (link.origin !== location.origin || !link.pathname.startsWith(root)) return;
    if (link.getAttribute('href')?.startsWith('#') === true) return;
    event.preventDefault();
    goTo(link.href);
  });
}

function readAddress(at?: Pick<Location, 'pathname' | 'search'>): Address {
  if (typeof location === 'undefined') return { path: [], query: new URLSearchParams() };
  const { pathname, search } = at ?? location;
  const path = pathname
    .slice(root.length)
    .split('/')
    .filter((segment) => segment !== '')
    .map(decode);
  // No argument of a command may have a NUL character, so no command could show the same.
  return { path, query: new URLSearchParams(search.replaceAll('%00', '')) };
}

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
