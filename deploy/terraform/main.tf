# The way of a nudge from the relay to the workers: bus, rule, target, queue, and a
# dead-letter queue for each of the two places where a message can fail.

data "aws_caller_identity" "current" {}

resource "aws_cloudwatch_event_bus" "rail" {
  name = var.name
  tags = var.tags
}

# PutEvents answers success for an event that no rule takes: the match is exact, so that
# what is missing is seen here and not guessed.
resource "aws_cloudwatch_event_rule" "nudges" {
  name           = var.name
  description    = "Nudges of the rail: ids only, never content"
  event_bus_name = aws_cloudwatch_event_bus.rail.name
  event_pattern  = jsonencode({ source = [var.event_source], "detail-type" = var.event_names })
  tags           = var.tags
}

# No role: AWS asks for a queue policy instead, and delivery can fail with a role.
resource "aws_cloudwatch_event_target" "queue" {
  rule           = aws_cloudwatch_event_rule.nudges.name
  event_bus_name = aws_cloudwatch_event_bus.rail.name
  target_id      = "queue"
  arn            = aws_sqs_queue.nudges.arn
  input_path     = "$.detail"

  # After an hour the workers have long swept the fact from the outbox.
  retry_policy {
    maximum_event_age_in_seconds = 3600
    maximum_retry_attempts       = 185
  }

  dead_letter_config {
    arn = aws_sqs_queue.undelivered.arn
  }

  # Before the queue lets the bus in, every event would go to the dead letters.
  depends_on = [aws_sqs_queue_policy.nudges, aws_sqs_queue_policy.undelivered]
}

locals {
  fourteen_days = 1209600
  sqs_encrypts  = var.kms_key_arn == null ? true : null
}

resource "aws_sqs_queue" "nudges" {
  name                       = var.name
  visibility_timeout_seconds = var.visibility_seconds
  receive_wait_time_seconds  = 20
  message_retention_seconds  = 345600
  kms_master_key_id          = var.kms_key_arn
  sqs_managed_sse_enabled    = local.sqs_encrypts
  tags                       = var.tags

  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.dead_letters.arn
    maxReceiveCount     = var.max_receive_count
  })
}

# What the workers could not handle. Retention counts from when a message was first
# sent, so it is the longest there is.
resource "aws_sqs_queue" "dead_letters" {
  name                      = "${var.name}-dead"
  message_retention_seconds = local.fourteen_days
  kms_master_key_id         = var.kms_key_arn
  sqs_managed_sse_enabled   = local.sqs_encrypts
  tags                      = var.tags
}

resource "aws_sqs_queue_redrive_allow_policy" "dead_letters" {
  queue_url = aws_sqs_queue.dead_letters.id
  redrive_allow_policy = jsonencode({
    redrivePermission = "byQueue"
    sourceQueueArns   = [aws_sqs_queue.nudges.arn]
  })
}

# What EventBridge could not hand to the queue.
resource "aws_sqs_queue" "undelivered" {
  name                      = "${var.name}-undelivered"
  message_retention_seconds = local.fourteen_days
  kms_master_key_id         = var.kms_key_arn
  sqs_managed_sse_enabled   = local.sqs_encrypts
  tags                      = var.tags
}

resource "aws_sqs_queue_policy" "nudges" {
  queue_url = aws_sqs_queue.nudges.id
  policy    = templatefile("${path.module}/../policies/queue.json", merge(local.arns, { queue_arn = aws_sqs_queue.nudges.arn }))
}

resource "aws_sqs_queue_policy" "undelivered" {
  queue_url = aws_sqs_queue.undelivered.id
  policy    = templatefile("${path.module}/../policies/queue.json", merge(local.arns, { queue_arn = aws_sqs_queue.undelivered.arn }))
}
