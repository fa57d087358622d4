/** Finds the route of a method and path. Literal segments win over parameters; no two routes match the same shape. */
import { assert } from '../../base/assert.ts';
import { RemusterError } from '../../base/errors.ts';
import type { ApiMethod, ApiRoute } from '../../base/http-routes.ts';

type Compiled = { readonly route: ApiRoute; readonly segments: readonly string[]; readonly rank: string };

export type RouteMatch =
  | { readonly kind: 'found'; readonly route: ApiRoute; readonly params: Readonly<Record<string, string>> }
  | { readonly kind: 'wrongMethod'; readonly allowed: readonly ApiMethod[] }
  | { readonly kind: 'unknown' };

export class RouteTable {
  readonly #routes: readonly Compiled[];

  constructor(routes: readonly ApiRoute[]) {
    this.#routes = routes.map((route) => compile(route)).toSorted((a, b) => (a.rank < b.rank ? 1 : -1));
    const shapes = this.#routes.map(({ route, segments }) => `${route.method} ${segments.map(shapeOf).join('/')}`);
    assert(new Set(shapes).size === shapes.length, 'two routes have the same method and path');
  }

  find(method: string, path: string): RouteMatch {
    const segments = path.split('/');
    const matching = this.#routes.filter((compiled) => isMatch(compiled.segments, segments));
    const found = matching.find(({ route }) => route.method === method);
    if (found !== undefined) return { kind: 'found', route: found.route, params: paramsOf(found.segments, segments) };
    if (matching.length === 0) return { kind: 'unknown' };
    return { kind: 'wrongMethod', allowed: [...new Set(matching.map(({ route }) => route.method))] };
  }
}

function compile(route: ApiRoute): Compiled {
  assert(route.path.startsWith('/'), `a path begins with a slash: ${route.path}`);
  const segments = route.path.split('/');
  return { route, segments, rank: segments.map((segment) => (isNamed(segment) ? '0' : '1')).join('') };
}

function isNamed(segment: string): boolean {
  return segment.startsWith(':');
}

function shapeOf(segment: string): string {
  return isNamed(segment) ? ':' : segment;
}

function isMatch(pattern: readonly string[], segments: readonly string[]): boolean {
  if (pattern.length !== segments.length) return false;
  return pattern.every((part, i) => (isNamed(part) ? segments[i] !== '' : part === segments[i]));
}

function paramsOf(pattern: readonly string[], segments: readonly string[]): Readonly<Record<string, string>> {
  const named = pattern.flatMap((part, i) =>
    isNamed(part) ? [[part.slice(1), decode(segments[i] ?? '')] as const] : [],
  );
  return Object.fromEntries(named);
}

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    throw new RemusterError('BAD_ARGUMENT', 'the path is not percent-encoded UTF-8');
  }
}
