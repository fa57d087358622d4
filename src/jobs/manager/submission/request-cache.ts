/** Caches validated requests by their JSON, bounded. Equal submissions share one immutable result. */
import { BoundedLru } from '../../../base/collections/bounded-lru.ts';
import { RemusterError } from '../../../base/errors.ts';
import type { JobRequest } from '../../job-types.ts';
import { badArgument, bytesOf, parseJsonObject } from './field-checks.ts';
import { validateJobRequest } from './request-validation.ts';
import { unitCountMax } from '../model/unit-split.ts';

export type ValidatedRequest = {
  readonly request: JobRequest;
  /** The request as submitted. */
  readonly json: string;
  /** JSON of the facts of each workflow. */
  readonly factsJson: readonly string[];
  /** The job has few units, which are recorded in its state. */
  readonly hasInlineUnits: boolean;
  /** Equal for equal content, whatever the idempotency key. */
  readonly hash: () => string;
};

/** Size of a request in its record. */
export const submissionBytesMax = 900_000;
const factsBytesMax = 200_000;
/** Limits of a job whose units are recorded in its state. */
const inlineUnitsMax = 16;
const inlineWorkflowsMax = 16;
const cachedMax = 256;
const cachedCharactersMax = 16_384;
const encoder = new TextEncoder();

export class RequestCache {
  readonly #sha256: (bytes: Uint8Array) => string;
  readonly #cached = new BoundedLru<string, ValidatedRequest>(cachedMax);

  constructor(sha256: (bytes: Uint8Array) => string) {
    this.#sha256 = sha256;
  }

  /** Throws BAD_ARGUMENT or TOO_LARGE for an invalid request. */
  validate(json: string): ValidatedRequest {
    const known = this.#cached.get(json);
    if (known !== undefined) return known;
    const validated = this.#validate(json);
    // A request with a key is unique, except for a resend.
    if (validated.request.idempotencyKey === undefined && json.length <= cachedCharactersMax)
      this.#cached.set(json, validated);
    return validated;
  }

  #validate(json: string): ValidatedRequest {
    if (bytesOf(json) > submissionBytesMax)
      throw new RemusterError('TOO_LARGE', `the request has more than ${submissionBytesMax} bytes`, 'no');
    if (!json.isWellFormed()) throw badArgument('the request is not valid Unicode');
    const request = validateJobRequest(parseJsonObject(json));
    const { workflows } = request;
    let units = 0;
    for (const facts of workflows) units += unitCountMax(facts);
    const factsJson = workflows.map((facts) => JSON.stringify(facts));
    for (const [index, text] of factsJson.entries())
      if (bytesOf(text) > factsBytesMax)
        throw badArgument(`the facts of workflow ${workflows[index]?.name} have more than ${factsBytesMax} bytes`);
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
