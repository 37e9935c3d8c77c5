variable "name" {
  description = "Name of the bus, the rule and the queue, and the beginning of all other names."
  type        = string
  default     = "rail"

  validation {
    condition     = can(regex("^[A-Za-z0-9_-]{1,48}$", var.name))
    error_message = "The name may have 1 to 48 letters, digits, hyphens and underscores: it also begins the names of queues."
  }
}

variable "event_source" {
  description = "Source of the events, as the relay's relay.event_source has it."
  type        = string
  default     = "brief.ops"
}

variable "event_names" {
  description = <<-TEXT
    Names of the facts that the queue gets: those of trigger.rules, and canary.asked, which the workers ask of themselves.
    A fact whose name is missing here is not lost: workers sweep it from the outbox after trigger.grace.
  TEXT
  type        = list(string)
  default = [
    "matter.created",
    "document.uploaded",
    "document.deleted",
    "document.replaced",
    "brief.requested",
    "canary.asked",
  ]

  validation {
    condition     = length(var.event_names) > 0
    error_message = "Name at least one fact: a rule without names would take everything of the source."
  }
}

variable "visibility_seconds" {
  description = "How long a received nudge stays invisible: several times what it takes to write one batch to the ledger, not a build."
  type        = number
  default     = 60

  validation {
    condition     = var.visibility_seconds >= 30 && var.visibility_seconds <= 43200
    error_message = "Write 30 to 43200 seconds: with less, a slow write of the ledger doubles messages."
  }
}

variable "max_receive_count" {
  description = "Receives before a nudge is a dead letter. High enough that a deploy, or a ledger that is away, pushes none out."
  type        = number
  default     = 10

  validation {
    condition     = var.max_receive_count >= 5 && var.max_receive_count <= 1000
    error_message = "Write 5 to 1000: with fewer, deploys push good messages out."
  }
}

variable "kms_key_arn" {
  description = <<-TEXT
    Key of your own for the three queues; its key policy must hold deploy/policies/kms.json (output kms_statement). The key
    aws/sqs will not do: EventBridge cannot be let in. Null: encryption by SQS itself.
  TEXT
  type        = string
  default     = null
}

variable "alarm_actions" {
  description = "ARNs that are told when an alarm changes its state, such as an SNS topic."
  type        = list(string)
  default     = []
}

variable "alarm_age_seconds" {
  description = "Age of the oldest nudge that alarms. The Briefs themselves are watched by the rules of deploy/prometheus."
  type        = number
  default     = 300
}

variable "tags" {
  description = "Tags of everything."
  type        = map(string)
  default     = {}
}
