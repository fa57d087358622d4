/** Caches validated requests by their JSON text, bounded. Equal submissions share one immutable result. */
import { BoundedLru } from '../../../base/collections/bounded-lru.ts';
import { RemusterError } from '../../../base/errors.ts';
import type { JobRequest } from '../../job-types.ts';
import { badArgument, bytesOf, parseJsonObject } from './field-checks.ts';
import { validateJobRequest } from './request-validation.ts';
import { unitCountMax } from '../model/unit-split.ts';

export type ValidatedRequest = {
  readonly request: JobRequest;
  /** As they came. */
  readonly json: string;
  /** JSON of the facts of each workflow. */
  readonly factsJson: readonly string[];
  /** So few units that they lie in the state of the job. */
  readonly hasInlineUnits: boolean;
  /** The same for the same content, whatever its key. */
  readonly hash: () => string;
};

/** Of all of it, in its record. */
const wordsBytesMax = 900_000;
const factsBytesMax = 200_000;
/** Of a job whose units lie in its state. */
const inlineUnitsMax = 16;
const inlineWorkflowsMax = 16;
const keptMax = 256;
const keptCharactersMax = 16_384;
const encoder = new TextEncoder();

export class RequestCache {
  readonly #sha256: (bytes: Uint8Array) => string;
  readonly #kept = new BoundedLru<string, ValidatedRequest>(keptMax);

  constructor(sha256: (bytes: Uint8Array) => string) {
    this.#sha256 = sha256;
  }

  /** BAD_ARGUMENT or TOO_LARGE when that is no request. */
  validate(words: string): ValidatedRequest {
    const known = this.#kept.get(words);
    if (known !== undefined) return known;
    const checked = this.#checked(words);
    // A key makes words that nobody uses again, unless they are sent a second time.
    if (checked.request.idempotencyKey === undefined && words.length <= keptCharactersMax)
      this.#kept.set(words, checked);
    return checked;
  }

  #checked(json: string): ValidatedRequest {
    if (bytesOf(json) > wordsBytesMax)
      throw new RemusterError('TOO_LARGE', `a request has at most ${wordsBytesMax} bytes`, 'no');
    if (!json.isWellFormed()) throw badArgument('the words are no Unicode');
    const request = validateJobRequest(parseJsonObject(json));
    const { workflows } = request;
    let units = 0;
    for (const facts of workflows) units += unitCountMax(facts);
    const factsJson = workflows.map((facts) => JSON.stringify(facts));
    for (const [index, text] of factsJson.entries())
      if (bytesOf(text) > factsBytesMax)
        throw badArgument(`the facts of ${workflows[index]?.name} are more than ${factsBytesMax} bytes`);
    let hash: string | undefined;
    return {
      request,
      json,
      factsJson,
      hasInlineUnits: workflows.length <= inlineWorkflowsMax && units <= inlineUnitsMax,
      hash: () => (hash ??= this.#hashOf(request)),
    };
  }

  #hashOf({ idempotencyKey: _key, ...content }: JobRequest): string {
    return this.#sha256(encoder.encode(JSON.stringify(content)));
  }
}
